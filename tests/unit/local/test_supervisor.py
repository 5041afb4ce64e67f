"""The supervisor on real, tiny processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from headrace_local.spec import ProcessSpec
from headrace_local.supervisor import StackFailedError, Supervisor

SLEEP = ("sleep", "60")


class FileExists:
    def __init__(self, path):
        self.path = path

    def __call__(self):
        return self.path.exists()


def shell(name, script, **more):
    return ProcessSpec(name=name, argv=("sh", "-c", script), **more)


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def until(condition, seconds=8.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.02)


class Run:
    """A supervisor in the background of a test."""

    def __init__(self, tmp_path, *specs):
        self.changes = []
        self.ready = asyncio.Event()
        self.stop = asyncio.Event()
        self.supervisor = Supervisor(specs, tmp_path / "logs", tmp_path, self.note)

    def note(self):
        self.changes.append({p.name: p.status for p in self.supervisor.processes.values()})

    async def __aenter__(self):
        self.task = asyncio.create_task(self.supervisor.run(self.stop, self.ready.set))
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await asyncio.wait_for(self.task, 40)

    def state(self, name):
        return self.supervisor.processes[name]


async def test_a_process_starts_only_when_what_it_needs_is_ready(tmp_path):
    flag = tmp_path / "flag"
    first = shell("first", f"sleep 0.2; touch {flag}; exec sleep 60", ready=FileExists(flag))
    async with Run(tmp_path, ProcessSpec("second", SLEEP, after=("first",)), first) as run:
        await asyncio.wait_for(run.ready.wait(), 40)
    began = next(change for change in run.changes if change["second"] == "starting")
    assert began["first"] == "ready"


async def test_those_that_need_nothing_of_each_other_start_side_by_side(tmp_path):
    met = tmp_path / "met"
    met.mkdir()
    # Each waits until all four are there: one after the other they would wait for ever.
    wait = f"touch {met}/$$; while [ $(ls {met} | wc -l) -lt 4 ]; do sleep 0.05; done"
    async with Run(tmp_path, *[shell(f"step{n}", wait, once=True) for n in range(4)]) as run:
        await asyncio.wait_for(run.ready.wait(), 40)


async def test_what_dies_is_started_again_and_counted(tmp_path):
    async with Run(tmp_path, ProcessSpec("part", SLEEP)) as run:
        await run.ready.wait()
        for restart in (1, 2):
            pid = run.state("part").pid
            os.kill(pid, signal.SIGKILL)
            await until(lambda: run.state("part").restarts == restart and run.state("part").status == "ready")
            assert run.state("part").pid != pid


async def test_a_dead_process_takes_what_it_started_with_it(tmp_path):
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    async with Run(tmp_path, shell("part", script, ready=FileExists(pid_file))) as run:
        await run.ready.wait()
        grandchild = int(pid_file.read_text())
        os.kill(run.state("part").pid, signal.SIGKILL)
        await until(lambda: not alive(grandchild))


async def test_a_process_that_never_becomes_ready_fails_the_stack_and_says_why(tmp_path):
    run = Run(tmp_path, ProcessSpec("well", SLEEP), shell("ill", "echo no disk left; exit 7"))
    with pytest.raises(StackFailedError, match=r"ill ended with status 7(?s:.)*no disk left"):
        await asyncio.wait_for(run.supervisor.run(run.stop, run.ready.set), 40)
    assert run.state("ill").status == "failed"
    assert not alive(run.state("well").pid)


async def test_a_program_that_is_not_there_is_named(tmp_path):
    run = Run(tmp_path, ProcessSpec("part", ("no-such-program",)))
    with pytest.raises(StackFailedError, match="cannot start no-such-program: No such file"):
        await asyncio.wait_for(run.supervisor.run(run.stop, run.ready.set), 40)


async def test_a_step_whose_result_is_there_is_not_run(tmp_path):
    result = tmp_path / "result"
    result.mkdir()
    async with Run(tmp_path, shell("step", "exit 1", once=True, result=result)) as run:
        await asyncio.wait_for(run.ready.wait(), 40)
        assert run.state("step").status == "done"


async def test_a_step_that_breaks_off_leaves_no_result(tmp_path):
    result, partial = tmp_path / "result", tmp_path / "partial"
    broken = shell("step", f"mkdir {partial}; exit 1", once=True, result=result, partial=partial)
    run = Run(tmp_path, broken)
    with pytest.raises(StackFailedError):
        await asyncio.wait_for(run.supervisor.run(run.stop, run.ready.set), 40)
    assert not result.exists()


async def test_processes_stop_before_what_they_need(tmp_path):
    async with Run(tmp_path, ProcessSpec("under", SLEEP), ProcessSpec("over", SLEEP, after=("under",))) as run:
        await run.ready.wait()
        pids = [run.state(name).pid for name in ("under", "over")]
    stopped = next(change for change in run.changes if "stopped" in change.values())
    assert stopped == {"under": "ready", "over": "stopped"}
    assert not any(alive(pid) for pid in pids)


async def test_one_that_ignores_the_request_to_stop_is_killed(tmp_path):
    deaf = shell("deaf", "trap '' TERM; while :; do sleep 0.1; done", stop_timeout_s=0.3)
    async with Run(tmp_path, deaf) as run:
        await run.ready.wait()
        pid = run.state("deaf").pid
    assert not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
async def test_children_die_with_a_supervisor_that_is_killed(tmp_path):
    script = f"""
import asyncio, sys
from pathlib import Path
from headrace_local.spec import ProcessSpec
from headrace_local.supervisor import Supervisor
here = Path({str(tmp_path)!r})
supervisor = Supervisor([ProcessSpec("part", ("sleep", "60"))], here / "logs", here, lambda: None)
asyncio.run(supervisor.run(asyncio.Event(), lambda: print(supervisor.processes["part"].pid, flush=True)))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    await until(lambda: not alive(pid))
    assert Path(tmp_path / "logs" / "part.log").exists()
