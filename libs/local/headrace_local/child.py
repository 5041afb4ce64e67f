"""Starting, watching and ending one child process. Synchronous: the supervisor calls the waiting parts in threads.

`start` must run in the main thread: the kernel's parent-death signal fires when the *thread* that forked ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from headrace_local.spec import ProcessSpec

SHIM = Path(__file__).with_name("shim.py")
STACK_VARIABLE = "HEADRACE_STACK"
"""Every child inherits it, set to its stack's folder: how a stray grandchild is recognised as ours."""
SETTLED_S = 0.3
"""A process without a probe counts as started when it has lived so long."""
LOG_LIMIT_BYTES = 64 * 1024 * 1024


class StartError(RuntimeError):
    """A process did not start; the message has the last line of its log, and where the rest is."""


@dataclass(frozen=True)
class Child:
    """A started process."""

    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    started: float
    """Its creation time as the kernel tells it, in seconds since the epoch: with the pid it names one process."""
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid


def start(spec: ProcessSpec, logs: Path, stack: Path) -> Child:
    """Start `spec` in its own session with its output appended to `logs`/NAME.log."""
    for folder in spec.folders:
        _make_folder(folder, spec.unprivileged)
    if spec.partial is not None:
        shutil.rmtree(spec.partial, ignore_errors=True)
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{spec.name}.log"
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    options = ["--parent", str(os.getpid()), "--signal", str(int(spec.death_signal))]
    if spec.unprivileged:
        options.append("--unprivileged")
    argv = [sys.executable, "-I", "-S", str(SHIM), *options, "--", *spec.argv]
    inherited = {name: value for name, value in os.environ.items() if name not in spec.unset}
    env = {**inherited, **spec.env, STACK_VARIABLE: str(stack)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=logs
        )
    try:
        running = psutil.Process(process.pid)
        started = running.create_time()
        if spec.idle:
            running.nice(10)
    except psutil.NoSuchProcess:
        started = time.time()
    return Child(spec, process, started, log)


def finish_step(spec: ProcessSpec) -> None:
    """Put a successful step's result in its place, in one rename."""
    if spec.partial is not None and spec.result is not None:
        spec.partial.replace(spec.result)


def wait_until_ready(child: Child) -> None:
    """Block until the child's probe says yes; a step is ready when it has ended with status 0.

    Raises StartError when the process ends, or its time runs out, before that.
    """
    spec = child.spec
    if spec.once:
        _wait_for_end(child)
        finish_step(spec)
        return
    began = time.monotonic()
    while True:
        status = child.process.poll()
        if status is not None:
            raise StartError(f"{spec.name} ended with status {status} while it started: {tail(child.log)}")
        if spec.ready() if spec.ready is not None else time.monotonic() - began > SETTLED_S:
            return
        if time.monotonic() - began > spec.ready_timeout_s:
            raise StartError(f"{spec.name} was not ready after {spec.ready_timeout_s:g} s: {tail(child.log)}")
        time.sleep(0.05)


def _wait_for_end(child: Child) -> None:
    spec = child.spec
    try:
        status = child.process.wait(spec.ready_timeout_s)
    except subprocess.TimeoutExpired as error:
        raise StartError(f"{spec.name} had not ended after {spec.ready_timeout_s:g} s: {tail(child.log)}") from error
    if status != 0:
        raise StartError(f"{spec.name} failed with status {status}: {tail(child.log)}")


def stop(child: Child) -> None:
    """Ask the child to stop, kill it when it does not, then end whatever is left of its session."""
    if child.process.poll() is None:
        child.process.send_signal(child.spec.stop_signal)
        try:
            child.process.wait(child.spec.stop_timeout_s)
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
    end_session(child.pid)


def end_session(session: int) -> None:
    """Kill every process whose session is `session`: what a dead or stopped child has left behind."""
    for pid in psutil.pids():
        try:
            if pid != session and os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def tail(log: Path) -> str:
    """What a log last said, for an error message, and where the rest is."""
    lines = log.read_bytes()[-8000:].decode(errors="replace").split("\n") if log.exists() else []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
    return f"{said[:400]} (more in {log})"


def _make_folder(folder: Path, unprivileged: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if unprivileged and os.geteuid() == 0:
        import pwd

        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
