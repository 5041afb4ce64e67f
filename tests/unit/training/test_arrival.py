from datetime import UTC, datetime

from headrace_schemas.events import Directive, EngineFacts, TrajectoryScored
from headrace_training.core.arrival import arrived, renews

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def event(**fields):
    given = dict(
        occurred_at=NOW,
        trajectory_id="chatcmpl-1",
        revision=1,
        episode_id="ep-1",
        policy="support",
        policy_version=0,
        prompt_token_ids=(1, 2),
        completion_token_ids=(3, 4),
        logprobs=(-1.0, -1.0),
        engine=EngineFacts(base_model="tiny"),
        reward=1.0,
        spec_digest="0" * 64,
    )
    return TrajectoryScored(**{**given, **fields})


def correction(text):
    return (Directive(kind="correction", text=text),)


def test_a_judged_answer_is_useful_and_counts_by_its_trust():
    result = arrived(event(weight=0.4))
    assert result.useful
    assert result.mass == 0.4


def test_a_correction_is_useful_without_a_reward():
    result = arrived(event(reward=None, directives=correction("So.")))
    assert result.useful
    assert result.mass == 1.0
    assert result.sample.demonstration == "So."


def test_what_no_run_can_learn_from_is_kept_and_not_useful():
    assert not arrived(event(reward=None)).useful
    assert not arrived(event(train=False)).useful
    assert not arrived(event(prompt_token_ids=())).useful
    assert not arrived(event(logprobs=())).useful
    assert not arrived(event(weight=0.0)).useful


def test_a_changed_mind_counts_again_and_a_moved_token_charge_does_not():
    before = arrived(event(reward=1.0)).sample
    assert renews(before, True, arrived(event(reward=0.0)))
    assert not renews(before, True, arrived(event(reward=0.95)))
    assert renews(before, True, arrived(event(directives=correction("So."))))
    assert renews(arrived(event(reward=None)).sample, False, arrived(event()))
    assert not renews(before, True, arrived(event(reward=None)))
