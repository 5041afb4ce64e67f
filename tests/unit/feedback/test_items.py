"""What the contract takes, and the code and field of each refusal."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_feedback.core.items import Problem, read_item
from headrace_feedback.core.metadata import items_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GOOD = {"inference_id": "chatcmpl-1", "metric_name": "accepted", "value": True}


def refusal(document, **given):
    with pytest.raises(Problem) as caught:
        read_item(document, now=NOW, **given)
    return caught.value.code, caught.value.field


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"value": 0.5},
        {"value": 3},
        {"value": None},
        {"value": "good"},
        {"metric_name": "comment", "value": "too long"},
        {"metric_name": "demonstration", "value": "It left."},
        {"metric_name": "demonstration", "value": {"role": "assistant", "content": "It left."}},
        {"metric_name": "comparison", "value": {"chosen": "chatcmpl-1", "rejected": "chatcmpl-2"}},
        {"metric_name": "shop.copied:v2"},
        {"source": {"kind": "code", "id": "ci"}, "tags": {"surface": "editor"}, "comment": "nice"},
        {"occurred_at": (NOW + timedelta(minutes=4)).isoformat()},
        {"occurred_at": (NOW - timedelta(days=89)).isoformat()},
        {"id": "fb_0123"},
        {"inference_id": None, "episode_id": "ep-1"},
    ],
)
def test_good_feedback_is_taken(change):
    assert read_item(GOOD | change, now=NOW).target


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"episode_id": "ep-1"}, "target", "inference_id"),
        ({"inference_id": None}, "target", "inference_id"),
        ({"inference_id": ""}, "invalid", "inference_id"),
        ({"inference_id": "x" * 201}, "invalid", "inference_id"),
        ({"metric_name": "9lives"}, "metric_name", "metric_name"),
        ({"metric_name": "x" * 65}, "metric_name", "metric_name"),
        ({"metric_name": "acc\nepted"}, "metric_name", "metric_name"),
        ({"metric_name": 3}, "invalid", "metric_name"),
        ({"value": {"a": 1}}, "value", "value"),
        ({"value": [1]}, "value", "value"),
        ({"value": float("nan")}, "value", "value"),
        ({"value": "x" * 4097}, "value", "value"),
        ({"metric_name": "comment", "value": True}, "value", "value"),
        ({"metric_name": "comment", "value": "  "}, "value", "value"),
        ({"metric_name": "comment", "value": "x" * 20_001}, "value", "value"),
        ({"metric_name": "demonstration", "value": {"text": "x"}}, "value", "value"),
        ({"metric_name": "comparison", "value": {"chosen": "a"}}, "value", "value"),
        ({"metric_name": "comparison", "value": {"chosen": "a", "rejected": "a"}}, "value", "value"),
        ({"metric_name": "comparison", "value": {"chosen": "a", "rejected": "b"}}, "value", "value"),
        ({"comment": "x" * 20_001}, "invalid", "comment"),
        ({"comment": "a\x00b"}, "nul_character", "comment"),
        ({"source": {"kind": "alien"}}, "invalid", "source.kind"),
        ({"source": {"kind": "human", "name": "x"}}, "unknown_field", "source.name"),
        ({"occurred_at": "yesterday"}, "invalid", "occurred_at"),
        ({"occurred_at": "2026-03-01T00:00:00"}, "invalid", "occurred_at"),
        ({"occurred_at": (NOW + timedelta(minutes=6)).isoformat()}, "occurred_at", "occurred_at"),
        ({"occurred_at": (NOW - timedelta(days=91)).isoformat()}, "occurred_at", "occurred_at"),
        ({"tags": {f"t{n}": "x" for n in range(21)}}, "too_many_tags", "tags"),
        ({"tags": {"t": 1}}, "invalid", "tags.t"),
        ({"id": "no spaces"}, "invalid", "id"),
        ({"metricname": "x"}, "unknown_field", "metricname"),
    ],
)
def test_bad_feedback_is_refused_with_a_code_and_the_field(change, code, field):
    assert refusal(GOOD | change) == (code, field)


def test_what_is_missing_is_named():
    assert refusal({"inference_id": "i", "metric_name": "accepted"}) == ("missing", "value")
    assert refusal({"inference_id": "i", "value": 1}) == ("missing", "metric_name")
    assert refusal([]) == ("not_an_object", None)


def test_strict_metrics_take_the_listed_and_the_reserved():
    assert read_item(GOOD, now=NOW, strict_metrics=("accepted",))
    assert read_item(GOOD | {"metric_name": "comment", "value": "x"}, now=NOW, strict_metrics=("accepted",))
    assert refusal(GOOD | {"metric_name": "copied"}, strict_metrics=("accepted",)) == ("unknown_metric", "metric_name")


def test_the_digest_is_of_the_meaning():
    one = read_item(GOOD | {"value": 1, "id": "a"}, now=NOW)
    assert one.digest() == read_item(dict(reversed((GOOD | {"value": 1}).items())), now=NOW).digest()
    assert one.digest() != read_item(GOOD | {"value": 2}, now=NOW).digest()
    assert one.digest() != read_item(GOOD | {"value": True}, now=NOW).digest()


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=10) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "id", "comment", "source", "tags", "occurred_at", "x"]), json_values))
def test_any_json_is_feedback_or_refused_in_words(document):
    try:
        assert read_item(document, now=NOW).target
    except Problem as problem:
        assert problem.code and problem.message


def test_openai_s_metadata_is_read_as_feedback():
    items = items_of(
        "chatcmpl-1",
        {
            "metadata": {
                "feedback.accepted": "True",
                "feedback.stars": "4.5",
                "feedback.mood": "nan",
                "feedback.old": "null",
                "plan": "pro",
            }
        },
    )
    assert {item["metric_name"]: item["value"] for item in items} == {
        "accepted": True,
        "stars": 4.5,
        "mood": "nan",
        "old": None,
    }
    assert all(item["tags"] == {"plan": "pro"} and item["inference_id"] == "chatcmpl-1" for item in items)


@pytest.mark.parametrize(
    "body", [None, [], {}, {"metadata": None}, {"metadata": {"feedback.a": 1}}, {"metadata": {"a": "b"}}]
)
def test_metadata_without_feedback_is_refused(body):
    with pytest.raises(Problem) as caught:
        items_of("chatcmpl-1", body)
    assert caught.value.field == "metadata"
