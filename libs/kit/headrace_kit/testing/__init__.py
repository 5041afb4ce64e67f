"""Fakes for tests, each held to the real thing by a contract test that runs the same scenarios on both."""

from headrace_kit.testing.bus import MemoryBroker, MemoryBus
from headrace_kit.testing.clock import FakeClock
from headrace_kit.testing.objects import MemoryObjects

__all__ = ["FakeClock", "MemoryBroker", "MemoryBus", "MemoryObjects"]
