"""The local stack as the CLI, the demo and the tests use it: up, down, status, and running it in the foreground.

`up(Path.cwd(), StackOptions.from_environment(), print)` returns a StackState: the official client reaches the
gateway with `OpenAI(base_url=f"{state.gateway_url}/v1", api_key=state.api_key)`; `down(Path.cwd())` ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from headrace_local import child, leftovers, plan
from headrace_local.credentials import load_or_make
from headrace_local.models import ModelError
from headrace_local.options import Layout, OptionError, StackOptions, layout
from headrace_local.state import ProcessState, StackState, is_supervised, read, try_lock, write
from headrace_local.supervisor import StackFailedError, Supervisor

OnProgress = Callable[[ProcessState], None]
ANOTHER_RUNS = 3
"""Exit status of a supervisor that found the stack locked."""


class StackError(RuntimeError):
    """The stack could not be started or stopped; the message says why and what to do."""


def up(
    root: Path, options: StackOptions, on_progress: OnProgress | None = None, *, timeout_s: float = 1800
) -> StackState:
    """Start the stack of `root` in the background, or find the one that runs; returns once all of it is ready.

    `on_progress` gets each process's state whenever it changed. Where a stack runs already it is returned as it
    is (`found`), with the options it was started with. Raises StackError; nothing is left running then.
    """
    where = layout(root)
    supervisor = None
    if not is_supervised(where):
        supervisor = _start_supervisor(where, options)
    elif (state := read(where)) is not None and state.phase == "stopping":
        _wait_until_free(where, 60)
        supervisor = _start_supervisor(where, options)
    state = _follow(where, supervisor, on_progress or (lambda _: None), time.monotonic() + timeout_s)
    return replace(state, found=supervisor is None)


def down(root: Path, *, timeout_s: float = 60) -> list[str]:
    """Stop the stack of `root`, and whatever a killed supervisor has left; returns the names of what ran.

    Data stay. A stack that does not run is no error.
    """
    where = layout(root)
    state = read(where)
    if state is None:
        return []
    ran = sorted(state.pids) if is_supervised(where) else []
    if is_supervised(where):
        _signal_supervisor(state, signal.SIGTERM)
        if not _wait_until_free(where, timeout_s):
            _signal_supervisor(state, signal.SIGKILL)
            _wait_until_free(where, 5)
        _wait_for_supervisor(state)
    # Read again: the supervisor has written what it stopped.
    state = read(where) or state
    ran += leftovers.end(state)
    if state.phase in ("starting", "ready", "stopping", "gone"):
        for process in state.processes.values():
            process.status = "stopped"
        write(replace(state, phase="stopped"))
    return ran


def status(root: Path) -> StackState | None:
    """The stack of `root` as it is now, or None where there never was one."""
    where = layout(root)
    state = read(where)
    if state is not None and state.phase in ("starting", "ready", "stopping") and not is_supervised(where):
        # The supervisor may have ended, and said so, between the two looks.
        state = read(where) or state
        if state.phase not in ("stopped", "failed"):
            return replace(state, phase="gone")
    return state


def run(
    root: Path,
    options: StackOptions,
    on_progress: OnProgress | None = None,
    on_ready: Callable[[StackState], None] | None = None,
) -> None:
    """Supervise the stack of `root` in this process until SIGINT or SIGTERM; a second signal kills what is left.

    Call it from the main thread. Raises StackError when the stack runs already or could not be started.
    """
    where = layout(root)
    lock = _lock_patiently(where)
    if lock is None:
        raise StackError(f"A stack runs in {where.root} already: `headrace status` shows it, `headrace down` stops it.")
    try:
        state = _prepare(where, options)
        asyncio.run(_supervise(state, on_progress or (lambda _: None), on_ready or (lambda _: None)))
    finally:
        os.close(lock)


def _prepare(where: Layout, options: StackOptions) -> StackState:
    """End what an earlier stack left, then choose ports and model."""
    try:
        earlier = read(where)
        if earlier is not None:
            leftovers.end(earlier)
        state = plan.first_state(where, options, earlier.ports if earlier else {})
    except (OptionError, ModelError) as error:
        write(_own(StackState(where.root, "failed", options, error=str(error))))
        raise StackError(str(error)) from error
    return _own(state)


def _own(state: StackState) -> StackState:
    state.supervisor_pid = os.getpid()
    state.supervisor_started = psutil.Process().create_time()
    return state


async def _supervise(state: StackState, on_progress: OnProgress, on_ready: Callable[[StackState], None]) -> None:
    stop = asyncio.Event()
    shown: dict[str, ProcessState] = {}

    def changed() -> None:
        write(state)
        for process in state.processes.values():
            if shown.get(process.name) != process:
                shown[process.name] = replace(process)
                on_progress(shown[process.name])

    def ready() -> None:
        state.phase = "ready"
        write(state)
        on_ready(state)

    def ask_to_stop() -> None:
        if stop.is_set():
            supervisor.hurry()
        state.phase = "stopping"
        stop.set()

    try:
        specs = plan.specs(state, load_or_make(state.layout))
    except FileNotFoundError as error:
        write(replace(state, phase="failed", error=str(error)))
        raise StackError(str(error)) from error
    supervisor = Supervisor(specs, state.layout.logs, state.root, changed)
    state.processes = supervisor.processes
    changed()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask_to_stop)
    try:
        await supervisor.run(stop, ready)
    except StackFailedError as error:
        write(replace(state, phase="failed", error=str(error)))
        raise StackError(str(error)) from error
    write(replace(state, phase="stopped"))


def _start_supervisor(where: Layout, options: StackOptions) -> subprocess.Popen[bytes]:
    where.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    where.logs.mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "headrace_local", str(where.root), json.dumps(options.to_json())]
    with where.supervisor_log.open("ab") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=where.root
        )


def _follow(
    where: Layout, supervisor: subprocess.Popen[bytes] | None, on_progress: OnProgress, deadline: float
) -> StackState:
    """Report changes until the stack is ready. With no `supervisor` of ours, follow the one that holds the lock."""
    shown: dict[str, ProcessState] = {}
    while time.monotonic() < deadline:
        ended = supervisor.poll() if supervisor is not None else None
        if ended == ANOTHER_RUNS:
            supervisor = ended = None
        state = read(where)
        if state is not None and (supervisor is None or state.supervisor_pid == supervisor.pid):
            for process in state.processes.values():
                if shown.get(process.name) != process:
                    shown[process.name] = process
                    on_progress(process)
            if state.phase == "ready":
                return state
            if state.phase == "failed":
                if supervisor is not None:
                    supervisor.wait()
                raise StackError(state.error or "the stack could not be started")
        if ended is not None or (supervisor is None and not is_supervised(where)):
            raise StackError(f"The supervisor ended before the stack was ready: {child.tail(where.supervisor_log)}")
        time.sleep(0.1)
    raise StackError(f"The stack was not ready in time; look into {where.logs}, then `headrace down`.")


def _signal_supervisor(state: StackState, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess, TypeError):
        process = psutil.Process(state.supervisor_pid)
        if abs(process.create_time() - (state.supervisor_started or 0)) < 0.05:
            process.send_signal(number)


def _wait_for_supervisor(state: StackState) -> None:
    """It gives the lock back just before it ends."""
    with suppress(psutil.Error, TypeError):
        process = psutil.Process(state.supervisor_pid)
        if abs(process.create_time() - (state.supervisor_started or 0)) < 0.05:
            process.wait(5)


def _wait_until_free(where: Layout, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while is_supervised(where):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _lock_patiently(where: Layout) -> int | None:
    """The stack's lock; somebody who only looks at it holds it for an instant."""
    for _ in range(10):
        lock = try_lock(where)
        if lock is not None:
            return lock
        time.sleep(0.05)
    return None
