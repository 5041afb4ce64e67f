"""Whether a version becomes champion: what a gate report is worth, and whether the engines are prepared."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from headrace_registry.core.lifecycle import State
from headrace_schemas import AdapterObserved, EvaluationCompleted, PolicySpec

FRESH = timedelta(seconds=60)
"""A replica that said nothing for longer is not live: agents report every 15 s."""


class Step(StrEnum):
    """What follows from a gate report."""

    KEEP = "keep"
    """The report is stored and nothing else: it judges something that is no longer so."""
    WAIT = "wait"
    """Passed, and a person decides."""
    PROMOTE = "promote"
    """Passed: champion as soon as every live replica has proved it."""
    HOLD = "hold"
    """Not proved better: engines need not keep it."""
    REJECT = "reject"


@dataclass(frozen=True)
class Verdict:
    """A step, and why in words."""

    step: Step
    because: str


def unbound(report: EvaluationCompleted, spec: PolicySpec, champion_version: int, champion_digest: str) -> str | None:
    """None where the report judged against today's champion by today's gate; else what has changed, in words."""
    if (report.champion_version, report.champion_digest) != (champion_version, champion_digest):
        return f"the report compared it with v{report.champion_version}, and the champion is v{champion_version} now"
    if report.gate_digest != spec.gate_digest():
        return "the policy's gate was changed after the report"
    if report.suite != spec.gate.suite:
        return f"the report used the suite {report.suite}, and the policy names {spec.gate.suite} now"
    return None


def judge(
    report: EvaluationCompleted,
    *,
    state: State,
    forced: bool,
    spec: PolicySpec,
    champion_version: int,
    champion_digest: str,
) -> Verdict:
    """What a new report means for a version in `state`. `forced`: a person already decided, the report only informs."""
    if forced:
        return Verdict(Step.KEEP, "a person decided already")
    if state not in (State.REGISTERED, State.EVALUATED):
        return Verdict(Step.KEEP, f"the version is {state}")
    changed = unbound(report, spec, champion_version, champion_digest)
    if changed is not None:
        return Verdict(Step.KEEP, changed)
    if report.verdict == "reject":
        return Verdict(Step.REJECT, report.because)
    if report.verdict == "hold":
        return Verdict(Step.HOLD, report.because)
    return Verdict(Step.WAIT if spec.gate.promote == "manual" else Step.PROMOTE, report.because)


def is_live(replica: AdapterObserved, base_model: str, now: datetime) -> bool:
    """Whether gateways send requests for this base model to it."""
    return replica.healthy and replica.base_model == base_model and now - replica.occurred_at <= FRESH


def not_ready(replicas: Iterable[AdapterObserved], engine_model: str, base_model: str, now: datetime) -> str | None:
    """None where every live replica proved the adapter and there is one; else what is missing, in words."""
    live = [r for r in replicas if is_live(r, base_model, now)]
    if not live:
        return f"no live replica serves {base_model}"
    missing = [r.replica for r in live if not r.ready(engine_model)]
    if missing:
        return f"{engine_model} is not ready on {', '.join(sorted(missing)[:3])}"
    return None


@dataclass(frozen=True)
class Pending:
    """A move that was decided and waits for the engines."""

    kind: Literal["promote", "rollback"]
    by: str
    reason: str
    forced: bool
    at: datetime
