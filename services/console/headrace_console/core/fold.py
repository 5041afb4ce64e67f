"""What the read model keeps of each event: flat rows, texts cut to what a page shows.

PostgreSQL's text refuses the NUL that a user may type, so excerpts drop it.
"""

from typing import Any

from headrace_schemas import (
    AdapterObserved,
    AdapterRegistered,
    CheckpointSaved,
    EvaluationCompleted,
    FeedbackRecorded,
    InferenceCompleted,
    PolicyChanged,
    RouteChanged,
    TrajectoryScored,
)

EXCERPT = 400
"""Characters kept of a text that somebody wrote."""
MOST = 2**31 - 1
"""The largest number that a column of integers takes."""
Row = dict[str, Any]


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """The text without NULs, cut with an ellipsis."""
    clean = text.replace("\x00", "").strip()
    return clean if len(clean) <= limit else f"{clean[: limit - 1].rstrip()}…"


def _row(**fields: Any) -> Row:
    return {name: value.replace("\x00", "") if isinstance(value, str) else value for name, value in fields.items()}


def question(event: InferenceCompleted) -> str:
    """The newest thing that the user said, or the plain prompt."""
    for message in reversed(event.messages):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):  # parts: text and pictures
                content = " ".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
            return excerpt(str(content or ""))
    return excerpt(event.prompt or "")


def inference(event: InferenceCompleted) -> Row:
    return _row(
        inference_id=event.inference_id,
        episode_id=event.episode_id,
        correlation_id=event.correlation_id,
        policy=event.policy,
        version=event.policy_version,
        variant=event.variant,
        state=event.state,
        fallback=event.fallback,
        completion_tokens=min(event.usage.completion_tokens, MOST),
        cost_usd=event.cost_usd,
        latency_s=event.latency_s,
        question=question(event),
        answer=excerpt(event.completion),
        occurred_at=event.occurred_at,
    )


def shown_value(event: FeedbackRecorded) -> str:
    """A feedback's value in a few words."""
    value = event.value
    if value is None:
        return "taken back"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return excerpt(str(value.get("content") or value.get("chosen") or ""))
    return excerpt(value)


def feedback(event: FeedbackRecorded) -> Row:
    return _row(
        feedback_id=event.feedback_id,
        revision=event.revision,
        inference_id=event.inference_id,
        episode_id=event.episode_id,
        correlation_id=event.correlation_id,
        metric_name=event.metric_name,
        value=shown_value(event),
        positive=event.value if isinstance(event.value, bool) else None,
        comment=excerpt(event.comment or ""),
        source_kind=event.source.kind,
        recorded_at=event.recorded_at,
    )


def trajectory(event: TrajectoryScored) -> Row:
    return _row(
        trajectory_id=event.trajectory_id,
        revision=event.revision,
        spec_digest=event.spec_digest,
        policy=event.policy,
        version=event.policy_version,
        reward=event.reward,
        teaches=event.train and (event.reward is not None or any(d.kind == "correction" for d in event.directives)),
        occurred_at=event.occurred_at,
    )


def run(event: CheckpointSaved) -> Row:
    return _row(
        run_id=event.run_id,
        digest=event.digest,
        policy=event.policy,
        parent_version=event.parent_version,
        samples=event.samples,
        recipe=event.recipe,
        occurred_at=event.occurred_at,
    )


def version(event: AdapterRegistered) -> Row:
    return _row(
        policy=event.policy,
        version=event.adapter.version,
        digest=event.adapter.digest,
        parent_version=event.parent_version,
        run_id=event.run_id,
        occurred_at=event.occurred_at,
    )


def evaluation(event: EvaluationCompleted) -> Row:
    return _row(
        evaluation_id=event.evaluation_id,
        policy=event.policy,
        version=event.candidate_version,
        champion_version=event.champion_version,
        verdict=event.verdict,
        because=excerpt(event.because),
        cases=event.statistics.cases,
        candidate_score=event.statistics.candidate,
        champion_score=event.statistics.champion,
        e_value=event.statistics.e_value,
        occurred_at=event.occurred_at,
    )


def route(event: RouteChanged) -> Row:
    return _row(
        policy=event.policy,
        epoch=event.epoch,
        champion=event.champion.version,
        previous=event.previous.version if event.previous else None,
        canary=event.canary.version if event.canary else None,
        canary_share=event.canary_share,
        candidates=[ref.version for ref in event.load],
        occurred_at=event.occurred_at,
    )


def policy(event: PolicyChanged) -> Row:
    train = event.spec.get("train") or {}
    return _row(
        policy=event.policy,
        revision=event.revision,
        digest=event.digest,
        base_model=excerpt(str(event.spec.get("base_model", "")), 200),
        trigger_events=(train.get("trigger") or {}).get("events", 32),
        occurred_at=event.occurred_at,
    )


def replica(event: AdapterObserved) -> Row:
    return _row(
        replica=event.replica,
        sequence=event.sequence,
        healthy=event.healthy,
        base_model=event.base_model,
        engine_version=event.engine.engine_version,
        adapters=[{"policy": a.policy, "version": a.version, "state": a.state} for a in event.adapters],
        occurred_at=event.occurred_at,
    )
