"""A reward out of opinions and rules, with a line for each part that says what it saw."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_reward.core.opinions import Opinion
from headrace_reward.core.price import Price, charge
from headrace_schemas import InferenceCompleted
from headrace_schemas.base import Value
from headrace_schemas.feedback import demonstration_text
from headrace_schemas.learning import Directive, ScoredPart
from headrace_schemas.policy import FeedbackPart, RewardPart, RewardSpec, RulePart
from headrace_scoring import judge_rule


class Scored(Value):
    """What a trajectory's revision is about. Two equal ones need no second revision."""

    reward: float | None = None
    reward_breakdown: tuple[ScoredPart, ...] = ()
    directives: tuple[Directive, ...] = ()
    preferred_over: str | None = None
    weight: float = 0.0
    actor: str | None = None
    feedback_ids: tuple[str, ...] = ()
    """Empty: nothing that was said of the answer counts, or counts any more."""
    spec_digest: str
    train: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What a part says of an answer, and the opinions behind it."""

    part: ScoredPart
    used: tuple[Opinion, ...] = ()


def compose(
    inference: InferenceCompleted, opinions: Sequence[Opinion], spec: RewardSpec, digest: str
) -> tuple[Scored, float | None]:
    """The trajectory's content before the charge for tokens, and its quality (the reward itself, as yet).

    `opinions` are those that count (opinions.about), in order. Parts that say nothing are left out of the weighted
    mean; where no feedback part says something there is no reward, whatever the rules say.
    """
    said = [s for part in spec.parts if (s := _say(part, inference, opinions))]
    if not any(s.part.kind == "feedback" for s in said):
        said = []
    total = sum(s.part.weight for s in said)
    quality = min(max(sum(s.part.weight * s.part.value for s in said) / total, 0.0), 1.0) if said else None
    used = {o.key: o for s in said for o in s.used} | {o.key: o for o in opinions if _words(o) or o.compared}
    behind = sorted(used.values(), key=lambda o: (o.sequence, o.feedback_id))
    chosen = [o.compared[1] for o in behind if o.compared and o.compared[0] == inference.inference_id]
    scored = Scored(
        reward=quality,
        reward_breakdown=tuple(s.part.model_copy(update={"weight": s.part.weight / total}) for s in said),
        directives=tuple(dict.fromkeys(d for o in behind for d in _words(o))),
        preferred_over=chosen[-1] if chosen else None,
        weight=sum(o.trust for o in behind) / len(behind) if behind else 0.0,
        actor=next((o.actor for o in reversed(behind) if o.actor), None),
        feedback_ids=tuple(o.feedback_id for o in behind),
        spec_digest=digest,
        train=inference.train and inference.state == "completed",
    )
    return scored, quality


def priced(
    scored: Scored, quality: float | None, price: Price | None, inference: InferenceCompleted, ceiling: float
) -> Scored:
    """The same after the charge for tokens."""
    if quality is None or price is None:
        return scored
    tokens = tokens_of(inference)
    off = charge(price, quality, tokens, ceiling)
    if off <= 0:
        return scored
    line = ScoredPart(
        name="token_cost",
        kind="token_cost",
        value=-off,
        weight=0.0,
        because=f"{tokens} tokens, the median accepted answer {price.median:g}; a doubling costs {price.weight:.3g}",
    )
    return scored.model_copy(update={"reward": quality - off, "reward_breakdown": (*scored.reward_breakdown, line)})


def tokens_of(inference: InferenceCompleted) -> int:
    return inference.usage.completion_tokens or len(inference.completion_token_ids)


def number(opinion: Opinion, inference_id: str) -> float | None:
    """An opinion as a number in [0, 1]; None where it is none.

    Booleans are 1 and 0, numbers are clipped. A comparison is 1 for the chosen and 0 for the rejected answer. A
    comment or a demonstration is 1 for being there: `demonstration: -1` makes having been corrected count against.
    """
    if opinion.compared:
        return float(opinion.compared[0] == inference_id)
    if opinion.key.metric_name in ("comment", "demonstration"):
        return 1.0
    if isinstance(opinion.value, bool | int | float):
        return min(max(float(opinion.value), 0.0), 1.0)
    return None


def _say(part: RewardPart, inference: InferenceCompleted, opinions: Sequence[Opinion]) -> Said | None:
    return _hear(part, inference, opinions) if isinstance(part, FeedbackPart) else _apply(part, inference)


def _hear(part: FeedbackPart, inference: InferenceCompleted, opinions: Sequence[Opinion]) -> Said | None:
    """Weighted mean over the metrics present, each the trust-weighted mean over its sources."""
    total = weighted = 0.0
    used: list[Opinion] = []
    words: list[str] = []
    for metric, weight in part.metrics.items():
        numbers = [
            (opinion, value)
            for opinion in opinions
            if opinion.key.metric_name == metric and opinion.trust > 0
            if (value := number(opinion, inference.inference_id)) is not None
        ]
        if not numbers:
            continue
        trust = sum(opinion.trust for opinion, _ in numbers)
        mean = sum(opinion.trust * value for opinion, value in numbers) / trust
        total += abs(weight)
        weighted += abs(weight) * (mean if weight > 0 else 1.0 - mean)
        used += [opinion for opinion, _ in numbers]
        words.append(_because(metric, weight, mean, [opinion for opinion, _ in numbers]))
    if not used:
        return None
    line = ScoredPart(
        name=part.name, kind=part.kind, value=weighted / total, weight=part.weight, because="; ".join(words)
    )
    return Said(line, tuple(used))


def _because(metric: str, weight: float, mean: float, opinions: Sequence[Opinion]) -> str:
    """`accepted 1 of the episode, 3 sources`"""
    kinds = sorted({opinion.key.target.partition(":")[0] for opinion in opinions} - {"inference"})
    where = f" of the {' and '.join(kinds)}" if kinds else ""
    sources = f", {len(opinions)} sources" if len(opinions) > 1 else ""
    turned = ", turned round" if weight < 0 else ""
    return f"{metric} {mean:.3g}{where}{sources}{turned}"


def _apply(part: RulePart, inference: InferenceCompleted) -> Said | None:
    """A rule judges text; of an answer that is a tool call alone it says nothing."""
    if inference.tool_calls and not inference.completion.strip():
        return None
    score = judge_rule(part.rule, inference.completion)
    return Said(
        ScoredPart(name=part.name, kind=part.kind, value=score.value, weight=part.weight, because=score.because)
    )


def _words(opinion: Opinion) -> tuple[Directive, ...]:
    """What was said in words. A program's words about what failed are an error message."""
    found: list[Directive] = []
    failed = opinion.source_kind in ("code", "system") and isinstance(opinion.value, bool | float) and not opinion.value
    if opinion.key.metric_name == "demonstration":
        found.append(Directive(kind="correction", text=demonstration_text(opinion.value)))
    elif opinion.key.metric_name == "comment":
        found.append(Directive(kind="comment", text=opinion.value))
    if opinion.comment and opinion.comment.strip():
        found.append(Directive(kind="error" if failed else "comment", text=opinion.comment))
    return tuple(found)
