"""How opinions and rules become one number and its breakdown."""

from datetime import UTC, datetime

import pytest

from headrace_reward.core.compose import compose
from headrace_reward.core.opinions import Opinion, about
from headrace_schemas import FeedbackRecorded, InferenceCompleted
from headrace_schemas.policy import RewardSpec
from headrace_schemas.traffic import EngineFacts, Source

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def inference(**given) -> InferenceCompleted:
    fields = {
        "inference_id": "i1",
        "episode_id": "ep-1",
        "occurred_at": NOW,
        "policy": "support",
        "policy_version": 1,
        "completion": "one two three",
        "engine": EngineFacts(base_model="base"),
        "state": "completed",
        "latency_s": 0.1,
    }
    return InferenceCompleted(**(fields | given))


def opinion(metric, value, n=1, *, by="u1", kind="human", trust=1.0, comment=None, target=("inference_id", "i1")):
    event = FeedbackRecorded(
        occurred_at=NOW,
        recorded_at=NOW,
        feedback_id=f"fb{n}",
        revision=1,
        sequence=n,
        metric_name=metric,
        value=value,
        comment=comment,
        trust=trust,
        source=Source(kind=kind, id=by),
        **{target[0]: target[1]},
    )
    return Opinion.of(event)


def reward_of(opinions, parts=None, **given):
    spec = RewardSpec.model_validate({"parts": parts or [{"name": "user", "kind": "feedback"}]})
    scored, _ = compose(inference(**given), about("i1", opinions), spec, "d" * 64)
    return scored


RULE = {"name": "short", "kind": "rule", "weight": 0.5, "rule": {"max_words": 2}}
USER = {"name": "user", "kind": "feedback", "weight": 1.5}


def test_parts_are_weighed_and_their_shares_sum_to_one():
    scored = reward_of([opinion("accepted", True)], [USER, RULE])
    assert scored.reward == pytest.approx(0.75)
    assert [(p.name, p.value, p.weight) for p in scored.reward_breakdown] == [("user", 1.0, 0.75), ("short", 0.0, 0.25)]
    assert "3 of at most 2 words" in scored.reward_breakdown[1].because


def test_a_rule_says_nothing_of_a_tool_call_and_nothing_without_feedback():
    scored = reward_of([opinion("accepted", True)], [USER, RULE], completion="", tool_calls=({"id": "c"},))
    assert scored.reward == 1.0 and len(scored.reward_breakdown) == 1
    assert reward_of([opinion("comment", "hm")], [USER, RULE]).reward is None


def test_numbers_are_clipped_and_strings_say_nothing():
    assert reward_of([opinion("accepted", 7)]).reward == 1.0
    assert reward_of([opinion("accepted", -0.5)]).reward == 0.0
    assert reward_of([opinion("accepted", 0.4)]).reward == pytest.approx(0.4)
    assert reward_of([opinion("accepted", "yes")]).reward is None


def test_a_negative_weight_turns_a_metric_round():
    parts = [{"name": "user", "kind": "feedback", "metrics": {"accepted": 1.0, "regenerated": -3.0}}]
    scored = reward_of([opinion("accepted", True), opinion("regenerated", True, 2)], parts)
    assert scored.reward == pytest.approx(0.25)
    assert "turned round" in scored.reward_breakdown[0].because


def test_sources_of_one_metric_are_averaged_by_trust():
    scored = reward_of([opinion("accepted", True, 1, trust=1.0), opinion("accepted", False, 2, by="u2", trust=0.25)])
    assert scored.reward == pytest.approx(0.8)
    assert scored.weight == pytest.approx(0.625) and scored.actor == "u2" and scored.feedback_ids == ("fb1", "fb2")


def test_the_nearest_target_of_one_source_counts():
    opinions = [
        opinion("accepted", True, 3, target=("episode_id", "ep-1")),
        opinion("accepted", False, 1),
        opinion("accepted", True, 2, by="u2", target=("episode_id", "ep-1")),
    ]
    assert reward_of(opinions).reward == pytest.approx(0.5)


def test_a_retracted_nearer_opinion_leaves_the_episode_s():
    opinions = [opinion("accepted", True, 1, target=("episode_id", "ep-1")), opinion("accepted", None, 2)]
    assert reward_of(opinions).reward == 1.0


def test_words_become_directives_once_each_and_a_program_s_failure_is_an_error():
    scored = reward_of(
        [
            opinion("accepted", False, 1, comment="too long"),
            opinion("comment", "too long", 2, by="u2"),
            opinion("demonstration", {"content": "Short."}, 3),
            opinion("task_succeeded", False, 4, kind="code", by="ci", comment="KeyError: 'id'"),
        ]
    )
    assert [(d.kind, d.text) for d in scored.directives] == [
        ("comment", "too long"),
        ("correction", "Short."),
        ("error", "KeyError: 'id'"),
    ]


def test_a_comparison_counts_as_a_reward_only_where_the_policy_says_so():
    value = {"chosen": "i1", "rejected": "i2"}
    assert reward_of([opinion("comparison", value)]).reward is None
    assert reward_of([opinion("comparison", value)]).preferred_over == "i2"
    parts = [{"name": "user", "kind": "feedback", "metrics": {"comparison": 1.0}}]
    assert reward_of([opinion("comparison", value)], parts).reward == 1.0
    lost = {"chosen": "i2", "rejected": "i1"}
    assert reward_of([opinion("comparison", lost)], parts).reward == 0.0


def test_a_correction_can_be_made_to_count_against():
    parts = [{"name": "user", "kind": "feedback", "metrics": {"accepted": 1, "demonstration": -1}}]
    assert reward_of([opinion("demonstration", "Better.")], parts).reward == 0.0


def test_feedback_nobody_listens_to_starts_nothing():
    assert reward_of([opinion("shown", True)]).feedback_ids == ()
