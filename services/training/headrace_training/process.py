"""The trainer as a child process, behind a protocol so that tests can put another in its place."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Protocol

GRACE_S = 5.0
"""Seconds between asking a trainer to stop and ending it."""


class TrainerProcess(Protocol):
    """Something that turns a run's folder into a result.json in it."""

    async def run(self, folder: Path) -> int:
        """Exit status; 0 where result.json says how it ended. A cancelled call leaves no process behind."""
        ...


class SubprocessTrainer:
    """`python -m headrace_training.trainer`, its output in the folder's trainer.log."""

    def __init__(self, models: Path) -> None:
        self.models = models

    async def run(self, folder: Path) -> int:
        """See the protocol."""
        arguments = ("-m", "headrace_training.trainer", str(folder), "--models", str(self.models))
        with (folder / "trainer.log").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                # Threads that spin while they wait take the cores that an engine beside them answers with: under such
                # load a step took twice as long (29 s against 15 s, two busy cores).
                env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
            )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), GRACE_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()
