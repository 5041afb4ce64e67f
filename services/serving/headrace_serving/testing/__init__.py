"""A fake engine and adapter files for it, for the tests of every service."""

from headrace_serving.testing.adapters import adapter_file
from headrace_serving.testing.engine import FakeEngine

__all__ = ["FakeEngine", "adapter_file"]
