import copy
import math
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_schemas import RouteChanged
from headrace_schemas.base import VersionRef
from headrace_schemas.traffic import EngineFacts
from headrace_serving.core.admission import Wants, admit
from headrace_serving.core.answer import Collected, collect, rename, strip
from headrace_serving.core.record import Outcome, record_of
from headrace_serving.core.routing import Choice, Decision
from headrace_serving.core.sse import Events, frame

ASK = [{"role": "user", "content": "hello"}]


def chunk(text, token, logprob, finish=None, **more):
    entry = {"token": text, "logprob": logprob, "bytes": [], "top_logprobs": []}
    choice = {
        "index": 0,
        "delta": {"content": text},
        "logprobs": {"content": [entry]},
        "finish_reason": finish,
        "token_ids": [token],
    }
    return {"id": "x", "model": "m", "choices": [choice], **more}


FIRST = {
    "id": "x",
    "model": "m",
    "prompt_token_ids": [5, 6],
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}],
}
USAGE = {"id": "x", "model": "m", "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}
STREAM = [FIRST, chunk("Hel", 7, -0.5), chunk("lo", 8, -0.25), chunk("", 2, -0.1, "stop"), USAGE]


@given(st.lists(st.integers(0, 400), max_size=12), st.sampled_from([b"\n", b"\r\n"]))
def test_events_come_whole_wherever_the_bytes_are_cut(cuts, newline):
    payloads = [orjson.dumps(d) for d in STREAM] + [b"[DONE]", "ünïcödé".encode()]
    data = b": a comment" + newline * 2 + b"".join(frame(p) for p in payloads).replace(b"\n", newline)
    places = sorted({min(c * 3, len(data)) for c in cuts})
    events, found = Events(), []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        found += events.feed(data[start:end])
    assert found == payloads


def test_every_byte_alone_gives_the_same_events():
    payloads = [orjson.dumps(d) for d in STREAM]
    data = b"".join(frame(p) for p in payloads)
    events = Events()
    assert [p for n in range(len(data)) for p in events.feed(data[n : n + 1])] == payloads


def test_data_over_several_lines_is_joined_and_other_fields_are_dropped():
    assert Events().feed(b"event: x\ndata: {\ndata: }\nid: 7\n\n") == [b"{\n}"]


def test_an_event_without_end_is_refused():
    with pytest.raises(ValueError, match="does not end"):
        Events(limit_bytes=100).feed(b"data: " + b"x" * 200)


def gathered(documents):
    collected = Collected()
    for document in documents:
        collect(copy.deepcopy(document), collected)
    return collected


def test_a_stream_is_put_together_for_the_record():
    got = gathered(STREAM)
    assert "".join(got.text) == "Hello"
    assert (got.prompt_token_ids, got.token_ids, got.logprobs) == ([5, 6], [7, 8, 2], [-0.5, -0.25, -0.1])
    assert got.finish_reason == "stop"
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (2, 3)
    assert got.aligned()


def test_a_stream_that_broke_off_is_counted_by_what_was_seen():
    got = gathered(STREAM[:3])
    assert got.usage is None
    assert got.usage_or_count().completion_tokens == 2


def test_logprobs_that_do_not_match_the_tokens_are_nobodys_to_train_on():
    assert not gathered([FIRST, chunk("a", 1, None)]).aligned()
    got = gathered([FIRST, chunk("a", 1, -0.5)])
    got.logprobs.append(-0.1)
    assert not got.aligned()
    got.logprobs = [-math.inf]
    assert not got.aligned()


def stripped(wants):
    shown = []
    for document in copy.deepcopy(STREAM):
        if strip(document, wants):
            shown.append(document)
    return shown


def test_a_client_that_asked_for_nothing_sees_nothing_more():
    shown = stripped(Wants(stream=True))
    assert all("usage" not in d and "prompt_token_ids" not in d for d in shown)
    assert all(c["logprobs"] is None and "token_ids" not in c for d in shown for c in d["choices"])
    assert "".join(c["delta"].get("content") or "" for d in shown for c in d["choices"]) == "Hello"
    assert shown[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_client_that_asked_for_all_sees_all():
    assert stripped(Wants(stream=True, logprobs=True, token_ids=True, usage=True)) == STREAM


def test_a_chunk_that_carries_nothing_but_what_is_hidden_is_not_sent():
    hidden = {
        "choices": [{"index": 0, "delta": {}, "logprobs": {"content": []}, "finish_reason": None, "token_ids": [1]}]
    }
    assert not strip(copy.deepcopy(hidden), Wants(stream=True))
    assert strip(copy.deepcopy(hidden), Wants(stream=True, token_ids=True))


def test_pieces_of_tool_calls_are_joined():
    def piece(**call):
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    got = gathered(
        [
            piece(index=0, id="c1", type="function", function={"name": "look", "arguments": ""}),
            piece(index=0, function={"arguments": '{"a"'}),
            piece(index=0, function={"arguments": ":1}"}),
            piece(index=1, id="c2", type="function", function={"name": "up", "arguments": "{}"}),
        ]
    )
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in got.tool_calls] == [
        ("c1", "look", '{"a":1}'),
        ("c2", "up", "{}"),
    ]


def test_the_answer_gets_our_names():
    document = {"id": "x", "model": "support@v7-abc", "choices": []}
    rename(document, inference_id="chatcmpl-1", model="support@v7", fingerprint="abc")
    assert document == {"id": "chatcmpl-1", "model": "support@v7", "system_fingerprint": "abc", "choices": []}


def make(*, evaluation=False, collected=None, **body):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    base = VersionRef(version=0, engine_model="m")
    route = RouteChanged(occurred_at=now, policy="support", base_model="m", epoch=1, champion=base)
    choice = Choice(base, "base")
    outcome = Outcome("completed", choice, False, "r", EngineFacts(base_model="m"), 0.1, 0.2)
    return record_of(
        admit({"model": "support", "messages": ASK, **body}, {}, chat=True),
        Decision(route, choice, (), evaluation),
        collected or gathered(STREAM),
        outcome,
        project="default",
        inference_id="i",
        episode_id="e",
        occurred_at=now,
    )


def test_the_record_holds_the_answer_as_it_was_sampled():
    record = make(temperature=0.5)
    assert (record.completion, record.completion_token_ids, record.logprobs) == (
        "Hello",
        (7, 8, 2),
        (-0.5, -0.25, -0.1),
    )
    assert (record.sampling.temperature, record.train, record.messages) == (0.5, True, tuple(ASK))


def test_an_evaluations_record_has_no_content_and_no_leave_to_learn():
    record = make(evaluation=True)
    assert (record.messages, record.completion, record.completion_token_ids, record.train) == ((), "", (), False)
    assert record.usage.completion_tokens == 3


def test_logprobs_that_are_not_whole_are_left_out():
    assert make(collected=gathered([FIRST, chunk("a", 1, None)])).logprobs == ()
