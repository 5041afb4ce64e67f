"""What the app says becomes bytes, or one sentence that says what to say instead."""

import json
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import FeedbackError, Headrace
from headrace.items import batch_body, encode, new_id, target_fields


def item(**changed):
    fields = {"metric_name": "accepted", "value": True, "comment": None, "source": None, "tags": None}
    fields |= {"targets": {"inference_id": "chatcmpl-1"}, "occurred_at": None} | changed
    return encode("fb_1", **fields)


def document(**changed):
    return json.loads(item(**changed).body)


def test_a_response_object_of_the_openai_client_stands_for_its_id():
    assert document(targets={"inference_id": SimpleNamespace(id="chatcmpl-9")})["inference_id"] == "chatcmpl-9"


def test_an_episode_id_is_recognised_by_its_shape():
    episode = "ep-" + "0" * 32
    assert target_fields(episode) == {"episode_id": episode}
    assert target_fields("chatcmpl-1") == {"inference_id": "chatcmpl-1"}
    assert target_fields("ep-mine") == {"inference_id": "ep-mine"}


def test_a_source_in_words_is_a_person():
    assert document(source="u_1")["source"] == {"kind": "human", "id": "u_1"}
    assert document(source={"kind": "code", "id": "ci"})["source"] == {"kind": "code", "id": "ci"}


def test_null_takes_an_opinion_back():
    assert document(value=None)["value"] is None


def test_the_time_of_the_call_goes_along():
    assert datetime.fromisoformat(document()["occurred_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"targets": {"inference_id": None, "episode_id": None}}, "exactly one of inference_id, episode_id; got none"),
        ({"targets": {"inference_id": "a", "episode_id": "b"}}, "got inference_id, episode_id"),
        ({"targets": {"inference_id": 7}}, "inference_id is 7"),
        ({"targets": {"inference_id": ""}}, "1 to 200 characters"),
        ({"metric_name": ""}, "metric_name is ''"),
        ({"value": float("nan")}, "cannot be written as JSON"),
        ({"value": object()}, "cannot be written as JSON"),
        ({"value": "x" * 300_000}, "at most 262144"),
        ({"occurred_at": datetime(2026, 1, 1)}, "no time zone"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_mend(changed, words):
    with pytest.raises(FeedbackError, match=words):
        item(**changed)


def test_a_batch_is_json_of_its_items():
    assert [i["id"] for i in json.loads(batch_body([item(), item()]))["items"]] == ["fb_1", "fb_1"]


def test_ids_are_new_each_time():
    assert len({new_id() for _ in range(1000)}) == 1000


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.binary() | st.integers() | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


class Unsent(Headrace):
    """Queues and never sends: what is tested is what happens before."""

    def _put(self, item):
        self._queue(item)


@pytest.fixture(scope="module")
def client():
    with Unsent("http://127.0.0.1:1", "hr_x", disabled=False) as made:
        yield made
        made._buffer.give_up(0.0, "the test ends")


@given(target=ANYTHING, name=ANYTHING, value=ANYTHING, comment=ANYTHING, source=ANYTHING, tags=ANYTHING, when=ANYTHING)
def test_no_argument_whatever_makes_the_client_raise(client, target, name, value, comment, source, tags, when):
    answered = client.record(
        inference_id=target,
        metric_name=name,
        value=value,
        comment=comment,
        source=source,
        tags=tags,
        occurred_at=when,
    )
    assert answered.startswith("fb_")
    assert client.accepted(target, source=source, tags=tags).startswith("fb_")
    assert client.corrected(target, value).startswith("fb_")
