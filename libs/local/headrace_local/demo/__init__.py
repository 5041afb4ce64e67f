"""The demo: simulated users of a support assistant teach a real model, while it serves them.

`run(DemoOptions(...))` starts a stack of its own, lets users ask and judge in rounds, measures questions that never get
feedback, rolls back, and writes a report. It returns a status for the shell.
"""

from headrace_local.demo.options import DemoOptions
from headrace_local.demo.runner import run

__all__ = ["DemoOptions", "run"]
