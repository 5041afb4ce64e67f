"""Keeps a set of processes running: starts them in the order of what they need, side by side where nothing
forbids it, starts again what dies, and stops all of it in reverse.

One asyncio task for each process. What blocks (waiting for readiness, for an end) runs in threads; starting
does not, because the kernel's parent-death signal is bound to the thread that forks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from headrace_local import child
from headrace_local.spec import ProcessSpec, in_order
from headrace_local.state import ProcessState

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""A process that ran so long before it died is started again after the first, short pause."""
ATTEMPTS = 3
"""So often a process may fail to start for the first time before the stack gives up."""

T = TypeVar("T")


class StackFailedError(RuntimeError):
    """A part could not be started."""


class Supervisor:
    """One run over a fixed set of specs; `on_change` is called after each change of a process's state."""

    def __init__(self, specs: Iterable[ProcessSpec], logs: Path, stack: Path, on_change: Callable[[], None]) -> None:
        self._specs = {spec.name: spec for spec in in_order(specs)}
        self._logs = logs
        self._stack = stack
        self._on_change = on_change
        self._threads = ThreadPoolExecutor(max_workers=2 * len(self._specs) + 2, thread_name_prefix="wait")
        self._children: dict[str, child.Child] = {}
        self._up = {name: asyncio.Event() for name in self._specs}
        self._stopping = False
        self._hurry = asyncio.Event()
        self.processes = {
            name: ProcessState(name, port=spec.port, url=spec.url, log=str(logs / f"{name}.log"))
            for name, spec in self._specs.items()
        }

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        """Start everything, keep it running until `stop` is set, stop everything.

        Raises StackFailedError when a process could not be started for the first time; all others are stopped
        by then.
        """
        keepers = [asyncio.create_task(self._keep(spec)) for spec in self._specs.values()]
        all_up = asyncio.create_task(self._wait_for_all())
        stopped = asyncio.create_task(stop.wait())
        try:
            waiting: set[asyncio.Task[Any]] = {all_up, stopped, *keepers}
            while not stop.is_set():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done & set(keepers):
                    task.result()
                if all_up in done:
                    on_ready()
        finally:
            await self._stop_all()
            for task in [*keepers, all_up, stopped]:
                task.cancel()
            await asyncio.gather(*keepers, all_up, stopped, return_exceptions=True)
            self._threads.shutdown(wait=False)

    async def _wait_for_all(self) -> None:
        for event in self._up.values():
            await event.wait()

    def hurry(self) -> None:
        """Kill what has not stopped yet."""
        self._hurry.set()
        for started in self._children.values():
            if started.process.poll() is None:
                started.process.kill()

    async def _keep(self, spec: ProcessSpec) -> None:
        for name in spec.after:
            await self._up[name].wait()
        state = self.processes[spec.name]
        if spec.once and spec.result is not None and spec.result.exists():
            self._note(state, "done")
            self._up[spec.name].set()
            return
        pause = FIRST_PAUSE_S
        failures = 0
        while not self._stopping:
            ready_since = await self._start(spec, state)
            if self._stopping:
                return
            if ready_since is None:
                failures += 1
                if failures >= ATTEMPTS and not self._up[spec.name].is_set():
                    self._note(state, "failed")
                    raise StackFailedError(state.error)
            elif spec.once:
                self._note(state, "done")
                self._up[spec.name].set()
                return
            else:
                self._up[spec.name].set()
                await self._in_thread(self._children[spec.name].process.wait)
                if self._stopping:
                    return
                if time.monotonic() - ready_since > STEADY_S:
                    pause = FIRST_PAUSE_S
            state.restarts += 1
            self._note(state, "restarting")
            await self._in_thread(child.end_session, self._children[spec.name].pid)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _start(self, spec: ProcessSpec, state: ProcessState) -> float | None:
        """Start and wait until ready: since when it is, or None when it failed; why is in `state.error`."""
        began = time.monotonic()
        started = child.start(spec, self._logs, self._stack)
        self._children[spec.name] = started
        state.pid, state.started = started.pid, started.started
        self._note(state, "starting")
        try:
            await self._in_thread(child.wait_until_ready, started)
        except child.StartError as error:
            state.error = str(error)
            await self._in_thread(child.stop, started)
            return None
        state.seconds = round(time.monotonic() - began, 2)
        state.error = None
        if not self._stopping and not spec.once:
            self._note(state, "ready")
        return time.monotonic()

    async def _stop_all(self) -> None:
        """Each process stops once those that need it have stopped."""
        self._stopping = True
        down = {name: asyncio.Event() for name in self._specs}
        needed_by = {name: [s.name for s in self._specs.values() if name in s.after] for name in self._specs}

        async def stop_one(name: str) -> None:
            for dependent in needed_by[name]:
                await down[dependent].wait()
            started = self._children.get(name)
            if started is not None:
                if self._hurry.is_set():
                    started.process.kill()
                await self._in_thread(child.stop, started)
            if self.processes[name].status not in ("done", "failed"):
                self._note(self.processes[name], "stopped")
            down[name].set()

        await asyncio.gather(*(stop_one(name) for name in self._specs))

    def _note(self, state: ProcessState, status: str) -> None:
        state.status = status  # type: ignore[assignment]
        self._on_change()

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
