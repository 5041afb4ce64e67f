"""A scored trajectory as a sample: what of it a run can learn from, and whether a new revision says something new."""

from dataclasses import dataclass

from headrace_schemas import TrajectoryScored
from headrace_training.core.dataset import Sample

CHANGE = 0.25
"""A reward that moved less than this says what it said before."""


@dataclass(frozen=True)
class Arrived:
    """A sample as it is kept."""

    sample: Sample
    useful: bool
    """Whether a run can learn anything from it."""
    mass: float
    """How much of an event it counts for towards a trigger, in [0, 1]."""


def arrived(event: TrajectoryScored) -> Arrived:
    """What to keep of a trajectory. Total: whatever an event lacks, the answer is a sample that is not useful."""
    corrections = [d.text for d in event.directives if d.kind == "correction" and d.text.strip()]
    scored = bool(event.completion_token_ids) and len(event.logprobs) == len(event.completion_token_ids)
    sample = Sample(
        sample_id=event.trajectory_id,
        revision=event.revision,
        inference_id=event.trajectory_id,
        messages=event.messages,
        prompt_token_ids=event.prompt_token_ids,
        completion_token_ids=event.completion_token_ids if scored else (),
        logprobs=event.logprobs if scored else (),
        temperature=event.sampling.temperature,
        reward=event.reward if scored else None,
        demonstration=corrections[-1] if corrections else None,
        comments=tuple(d.text for d in event.directives if d.kind == "comment"),
        weight=event.weight,
        policy_version=event.policy_version,
        actor=event.actor,
        segment=event.segment,
    )
    taught = sample.demonstration is not None or (sample.reward is not None and sample.weight > 0)
    useful = event.train and bool(event.prompt_token_ids) and taught
    mass = 1.0 if sample.demonstration is not None else min(1.0, sample.weight)
    return Arrived(sample, useful, mass if useful else 0.0)


def renews(before: Sample, was_useful: bool, now: Arrived) -> bool:
    """Whether a later revision counts as an event again.

    A changed mind does. A reward that moved by a few hundredths, because the charge on tokens did, does not: every
    sample would be new for ever.
    """
    if not now.useful:
        return False
    if not was_useful or before.demonstration != now.sample.demonstration:
        return True
    if before.reward is None or now.sample.reward is None:
        return before.reward != now.sample.reward
    return abs(before.reward - now.sample.reward) >= CHANGE
