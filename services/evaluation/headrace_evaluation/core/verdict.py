"""The gate's verdict over paired answers. Missing, non-finite or too little evidence never promotes."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace_evaluation.core.eprocess import e_value
from headrace_schemas.events import GateStatistics, GuardResult
from headrace_schemas.policy import GateSpec, Guard

HARM_ALPHA = 0.2
"""Evidence that a candidate is worse counts from 1/0.2: better to lose a good one than to keep a bad one loaded."""
BAD = 1.5
"""A guard that is missed by half as much again rejects at once."""


class Answered(NamedTuple):
    """What one version made of one case."""

    score: float
    """In [0, 1]."""
    passed: bool
    """Met every check."""
    tokens: int
    latency_s: float


class Pair(NamedTuple):
    """Candidate and champion on the same case."""

    candidate: Answered
    champion: Answered
    weight: float
    """As a share of the suite's heaviest case."""


@dataclass(frozen=True)
class Verdict:
    verdict: Literal["promote", "hold", "reject"]
    because: str
    statistics: GateStatistics
    guards: tuple[GuardResult, ...]


def decide(gate: GateSpec, pairs: Sequence[Pair], *, expected: int, trouble: str = "") -> Verdict:
    """Judge `pairs`, of `expected` cases. `trouble`: why cases are missing, in words without the suite's content."""
    bound = 1 / gate.target.alpha
    finite = [p for p in pairs if _finite(p)]
    numbers = _statistics(finite, gate.target.alpha)
    guards = tuple(_guard(g, finite) for g in gate.guards) if finite else ()
    said = f"{numbers.candidate:.3f} against {numbers.champion:.3f} on {numbers.cases} cases"
    verdict: Literal["promote", "hold", "reject"]
    if len(finite) < len(pairs):
        verdict, because = "reject", f"{len(pairs) - len(finite)} of {len(pairs)} scores are not finite"
    elif len(pairs) < expected or not pairs:
        missing = f"{expected - len(pairs)} of {expected} cases have no pair of answers"
        verdict, because = "hold", f"{missing}: {trouble}" if trouble else missing
    elif numbers.e_harm >= 1 / HARM_ALPHA:
        verdict, because = "reject", f"worse: {said}, evidence {numbers.e_harm:.3g} of {1 / HARM_ALPHA:g}"
    elif bad := [g for g in guards if not g.passed and _is_bad(g)]:
        verdict, because = "reject", f"guard missed by far: {_missed(bad)}; {said}"
    elif failed := [g for g in guards if not g.passed]:
        verdict, because = "hold", f"guard missed: {_missed(failed)}; {said}"
    elif numbers.e_value >= bound:
        verdict, because = "promote", f"better: {said}, evidence {numbers.e_value:.3g} of {bound:g}"
    elif (best := _best_possible(finite)) < bound:
        verdict = "hold"
        because = f"the suite cannot prove it: even perfect answers would give evidence {best:.3g} of {bound:g}; {said}"
    else:
        verdict, because = "hold", f"not proved better: {said}, evidence {numbers.e_value:.3g} of {bound:g}"
    return Verdict(verdict, because, numbers, guards)


def settled(gate: GateSpec, pairs: Sequence[Pair]) -> bool:
    """Whether the evidence is in, so that the rest of the suite need not be asked.

    The e-value may be looked at whenever one likes; guards must hold at the same look. A candidate that is worse is
    settled as soon as that is known.
    """
    verdict = decide(gate, pairs, expected=len(pairs))
    return verdict.verdict == "promote" or verdict.statistics.e_harm >= 1 / HARM_ALPHA


def _finite(pair: Pair) -> bool:
    return all(math.isfinite(x) for a in (pair.candidate, pair.champion) for x in (a.score, a.latency_s)) and (
        math.isfinite(pair.weight)
    )


def _differences(pairs: Sequence[Pair], candidate: Callable[[Pair], float]) -> list[float]:
    """Per case, scaled so that the suite's heaviest case bets with its whole difference.

    The scale is the same at every look: evidence of looks that bet on different scales would not be of one game.
    """
    heaviest = max(1.0, *(p.weight for p in pairs))
    return [(candidate(p) - p.champion.score) * p.weight / heaviest for p in pairs]


def _best_possible(pairs: Sequence[Pair]) -> float:
    return e_value(_differences(pairs, lambda _: 1.0))


def _statistics(pairs: Sequence[Pair], alpha: float) -> GateStatistics:
    if not pairs:
        return GateStatistics(cases=0, candidate=0.0, champion=0.0, e_value=1.0, e_harm=1.0, alpha=alpha)
    total = math.fsum(p.weight for p in pairs)
    differences = _differences(pairs, lambda p: p.candidate.score)
    return GateStatistics(
        cases=len(pairs),
        candidate=math.fsum(p.candidate.score * p.weight for p in pairs) / total,
        champion=math.fsum(p.champion.score * p.weight for p in pairs) / total,
        e_value=e_value(differences),
        e_harm=e_value([-d for d in differences]),
        alpha=alpha,
        candidate_passed=sum(p.candidate.passed for p in pairs),
        champion_passed=sum(p.champion.passed for p in pairs),
    )


def _guard(guard: Guard, pairs: Sequence[Pair]) -> GuardResult:
    """Mean tokens an answer; the median of latencies, which one slow moment does not move."""
    if guard.metric == "tokens_per_answer":
        candidate = statistics.fmean(p.candidate.tokens for p in pairs)
        champion = statistics.fmean(p.champion.tokens for p in pairs)
    else:
        candidate = statistics.median(p.candidate.latency_s for p in pairs)
        champion = statistics.median(p.champion.latency_s for p in pairs)
    return GuardResult(
        metric=guard.metric,
        candidate=candidate,
        champion=champion,
        limit=guard.max_ratio,
        passed=candidate <= champion * guard.max_ratio,
    )


def _is_bad(guard: GuardResult) -> bool:
    return guard.champion > 0 and guard.candidate > guard.champion * guard.limit * BAD


def _missed(guards: Sequence[GuardResult]) -> str:
    return ", ".join(f"{g.metric} {g.candidate:.3g} against {g.champion:.3g}, limit {g.limit:g} times" for g in guards)
