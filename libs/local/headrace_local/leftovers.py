"""Ends what an earlier stack has left: its supervisor was killed together with something that could not follow it.

A process is a leftover when it is one that the last state recorded (same pid *and* same creation time, so that
a pid used again is left alone), is in the session of one, or carries the stack's mark in its environment.
"""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from headrace_local.child import STACK_VARIABLE
from headrace_local.state import StackState

PATIENCE_S = 5.0


def find(state: StackState) -> list[psutil.Process]:
    """The processes that belong to the stack, this process and its ancestors apart."""
    recorded = {p.pid: p.started for p in state.processes.values() if p.pid is not None and p.status != "done"}
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        with suppress(psutil.Error, ProcessLookupError):
            if process.status() != psutil.STATUS_ZOMBIE and _belongs(process, recorded, state):
                found.append(process)
    return found


def _belongs(process: psutil.Process, recorded: dict[int, float | None], state: StackState) -> bool:
    if process.pid in recorded:
        return _same_start(process, recorded[process.pid])
    session = os.getsid(process.pid)
    if session in recorded and not psutil.pid_exists(session):
        return True
    if session in recorded and _same_start(psutil.Process(session), recorded[session]):
        return True
    with suppress(psutil.AccessDenied):
        mark: str | None = process.environ().get(STACK_VARIABLE)
        return mark == str(state.root)
    return False


def _same_start(process: psutil.Process, started: float | None) -> bool:
    return started is not None and abs(process.create_time() - started) < 0.05


def end(state: StackState) -> list[str]:
    """Stop the leftovers, kill what does not stop; returns what they were called."""
    found = find(state)
    names = []
    for process in found:
        with suppress(psutil.Error):
            names.append(process.name())
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=PATIENCE_S)
    for process in alive:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=PATIENCE_S)
    return names
