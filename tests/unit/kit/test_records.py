"""Decoding is total: any bytes give an event or a Rejected with a code."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_kit.errors import Rejected
from headrace_kit.records import Record, dead_letter, decode, encode
from headrace_schemas import FeedbackRecorded, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_schemas.ids import episode_id, episode_of, inference_id, is_inference_id, uuid7

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def feedback(**changes) -> FeedbackRecorded:
    fields = dict(
        occurred_at=NOW,
        recorded_at=NOW,
        feedback_id="fb1",
        revision=1,
        sequence=1,
        correlation_id="c",
        metric_name="accepted",
        value=True,
    )
    return FeedbackRecorded(**(fields | changes))


def as_record(event, **changes) -> Record:
    out = encode(event, topic="t", source="test", recorded_at=NOW)
    fields = dict(topic=out.topic, partition=0, offset=5, key=out.key, value=out.value, headers=out.headers)
    return Record(**(fields | changes))


def test_an_event_survives_the_wire_with_cloudevents_headers():
    event = feedback(comment="naïve ☂")
    record = as_record(event)
    assert decode(record, FeedbackRecorded) == event
    assert record.header("ce_id") == "fb1.1"
    assert record.header("ce_type") == "headrace.feedback-recorded.v1"
    assert record.header("ce_partitionkey") == "c"
    assert record.header(
        "traceparent",
    ).startswith("00-")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "tombstone"),
        (b"", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[]", "not_an_object"),
        (b'{"schema_version": "2.0"}', "unknown_major"),
        (b'{"x": NaN}', "not_json"),
        (b'{"x": 1e999}', None),
        (b"{}", "schema"),
    ],
)
def test_what_is_not_an_event_is_rejected_with_a_reason(value, code):
    with pytest.raises(Rejected) as caught:
        decode(as_record(feedback(), value=value), FeedbackRecorded)
    assert code is None or caught.value.code == code


def test_another_type_and_a_broken_header_are_rejected():
    with pytest.raises(Rejected, match="this topic carries"):
        decode(as_record(feedback()), RouteChanged)
    with pytest.raises(Rejected, match="not UTF-8"):
        decode(as_record(feedback(), headers=(("x", b"\xff\xfe"),)), FeedbackRecorded)


@given(st.binary(max_size=300), st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=8)), max_size=3))
def test_any_bytes_are_an_event_or_rejected(value, headers):
    try:
        decode(Record("t", 0, 0, None, value, tuple(headers)), FeedbackRecorded)
    except Rejected as reason:
        assert reason.code and reason.message


def test_a_dead_letter_keeps_what_came_and_says_why():
    record = as_record(feedback(), value=b"junk")
    letter = dead_letter(record, "t.dlq", Rejected("not_json", "no"), 3, "reward")
    assert letter.value == b"junk" and letter.key == record.key
    assert dict(letter.headers)["headrace-dlq-offset"] == b"5"
    assert dict(letter.headers)["headrace-dlq-code"] == b"not_json"


@given(
    st.integers(0, 2**47),
    st.integers(0, 2**47),
    st.binary(min_size=10, max_size=10),
    st.binary(min_size=10, max_size=10),
)
def test_ids_sort_by_time_and_an_inference_id_contains_its_episode(a, b, noise, other):
    first, second = uuid7(a, noise), uuid7(b, other)
    if a < b:
        assert first < second
    assert first.version == 7
    episode = episode_id(first)
    inference = inference_id(episode, second)
    assert is_inference_id(inference)
    assert episode_of(inference) == episode


def test_feedback_is_keyed_by_the_episode_inside_the_inference_id():
    episode = episode_id(uuid7(1, bytes(10)))
    inference = inference_id(episode, uuid7(2, bytes(10)))
    assert feedback(correlation_id=None, inference_id=inference).key() == episode
    assert feedback().key() == "c"


def test_a_route_names_every_adapter_that_must_be_loaded_once():
    def ref(n: int) -> VersionRef:
        return VersionRef(version=n, digest="a" * 64, object_key="k", engine_model=f"p@v{n}")

    base = VersionRef(version=0, engine_model="base")
    route = RouteChanged(
        occurred_at=NOW, policy="p", base_model="base", epoch=1, champion=ref(2), previous=base, load=(ref(2), ref(3))
    )
    assert [r.version for r in route.wanted()] == [2, 3]
