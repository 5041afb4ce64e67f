"""Follows one version from the last piece of feedback to the verdict: run, registration, proof, gate, promotion."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace_local.demo.control import Control
from headrace_local.demo.errors import DemoError

POLL_S = 0.5
ENDED_BADLY = ("diverged", "oom", "cancelled", "failed")
Json = dict[str, Any]
OnStep = Callable[[str, float | None], None]
"""What is going on, and which share of it is done where that is known."""


@dataclass(frozen=True)
class Followed:
    """How it ended."""

    row: Json | None
    """The registry's line about the version; None where the run ended without one."""
    outcome: str
    """promoted, held, rejected; or how the run ended."""
    train_s: float
    gate_s: float


def outcome_of(row: Json) -> str | None:
    """What became of a version, or None while that is open."""
    if row["role"] == "champion":
        return "promoted"
    if row["state"] in ("rejected", "quarantined"):
        return "rejected"
    if row["state"] == "evaluated" and row["verdict"] == "hold":
        return "held"
    return None


def step_of(row: Json) -> str:
    """What a version waits for, in words."""
    if row["state"] == "registered":
        return "the gate asks the private suite" if row["ready_on"] else "the engine loads and proves it"
    return f"{row['state']}, verdict {row['verdict']}"


async def follow(
    control: Control, after: int, known_runs: set[str], training_s: float, gate_s: float, on_step: OnStep
) -> Followed:
    """Wait for the first version newer than `after` and its outcome; `known_runs` are those of earlier rounds.

    Raises DemoError where time runs out.
    """
    began = time.monotonic()
    row = await _registered(control, after, training_s, known_runs, on_step)
    trained = time.monotonic()
    if isinstance(row, str):
        return Followed(None, row, trained - began, 0.0)
    while (outcome := outcome_of(row)) is None:
        if time.monotonic() - trained > gate_s:
            raise DemoError(
                f"v{row['version']} has no outcome after {gate_s:.0f} s ({step_of(row)}): "
                "the logs of agent and evaluation say why."
            )
        on_step(f"v{row['version']}: {step_of(row)}", None)
        await asyncio.sleep(POLL_S)
        row = next(r for r in await control.versions() if r["version"] == row["version"])
    return Followed(row, outcome, trained - began, time.monotonic() - trained)


async def _registered(
    control: Control, after: int, patience_s: float, known_runs: set[str], on_step: OnStep
) -> Json | str:
    """The new version's row, or how a run ended that brought none."""
    began = time.monotonic()
    while True:
        newer = [r for r in await control.versions() if r["version"] > after]
        if newer:
            return min(newer, key=lambda r: int(r["version"]))
        found, because = await control.runs()
        runs = [run for run in found if run["run_id"] not in known_runs]
        ended = next((run for run in runs if run["state"] in ENDED_BADLY), None)
        if ended is not None:
            return f"{ended['state']}: {ended['reason'] or 'no reason given'}"
        if time.monotonic() - began > patience_s:
            raise DemoError(
                f"No new version after {patience_s:.0f} s, the trainer says: {because}. Its log may say more."
            )
        on_step(*_training_step(runs, because))
        await asyncio.sleep(POLL_S)


def _training_step(runs: list[Json], because: str) -> tuple[str, float | None]:
    if not runs:
        return f"training waits: {because}", None
    progress = runs[0]["progress"] or {}
    step, steps = progress.get("step"), progress.get("steps")
    if step is None or not steps:
        return f"training: {runs[0]['state']}", None
    return f"training: step {step} of {steps}", step / steps
