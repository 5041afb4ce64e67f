import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_serving.core.admission import admit
from headrace_serving.core.refusal import Refusal
from headrace_serving.upstream import body_of

ASK = [{"role": "user", "content": "hello"}]
EPISODE = "ep-" + "0" * 32


def chat(headers=None, **body):
    return admit({"model": "support", "messages": ASK, **body}, headers or {}, chat=True)


def test_the_engine_is_asked_for_everything_that_the_record_needs():
    admitted = chat(stream=True, temperature=0.3)
    assert admitted.upstream["return_token_ids"] is True
    assert admitted.upstream["logprobs"] is True
    assert admitted.upstream["stream_options"] == {"include_usage": True}
    assert admitted.upstream["temperature"] == 0.3
    assert (admitted.upstream["top_p"], admitted.upstream["top_k"]) == (1.0, 0)  # not what a model's folder may say
    assert "model" not in admitted.upstream
    wants = admitted.wants
    assert (wants.stream, wants.logprobs, wants.token_ids, wants.usage) == (True, False, False, False)


def test_a_plain_completion_asks_for_the_sampled_tokens_logprob():
    body = {"model": "support", "prompt": ["hello"]}
    assert admit(body, {}, chat=False).upstream["logprobs"] == 0
    assert admit(body, {}, chat=False).prompt == "hello"
    asked = admit({**body, "logprobs": 2}, {}, chat=False)
    assert (asked.upstream["logprobs"], asked.wants.logprobs) == (2, True)


def test_our_options_come_in_the_body_or_in_headers_and_openais_own_fields_count():
    headers = {"x-headrace-episode-id": EPISODE, "x-stainless-retry-count": "1"}
    ours = {"correlation_id": "c", "segment": "de", "metadata": {"a": "1"}, "train": False}
    admitted = chat(headers, headrace=ours, metadata={"b": "2"}, user="u", store=True)
    assert admitted.episode_id == EPISODE
    assert (admitted.correlation_id, admitted.segment, admitted.actor) == ("c", "de", "u")
    assert admitted.metadata == {"a": "1", "b": "2"}
    assert (admitted.train, admitted.store, admitted.retry_count) == (False, True, 1)
    assert "headrace" not in admitted.upstream
    assert "metadata" not in admitted.upstream
    assert chat(headrace={"actor": "x"}, user="u").actor == "x"
    assert not chat(store=False).store


def test_fields_of_openais_own_service_are_dropped_and_unknown_ones_refused_by_name():
    assert "service_tier" not in chat(service_tier="auto").upstream
    for field in ("cache_salt", "vllm_xargs", "prompt_logprobs", "lora_path", "load_inplace", "functions"):
        with pytest.raises(Refusal) as refused:
            chat(**{field: 1})
        assert refused.value.param == field


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages"),
        ({"n": 3}, "n"),
        ({"n": "1"}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"temperature": "hot"}, "temperature"),
        ({"logprobs": 3}, "logprobs"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"headrace": 7}, "headrace"),
        ({"headrace": {"x": 1}}, "headrace"),
        ({"headrace": {"actor": "x" * 300}}, "headrace.actor"),
        ({"headrace": {"train": 1}}, "headrace.train"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a" * 70: "1"}}, "metadata"),
        ({"headrace": {"episode_id": "order-7"}}, "headrace.episode_id"),
        ({"tools": {}}, "tools"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"model": None}, "model"),
    ],
)
def test_a_wrong_field_is_named(body, param):
    with pytest.raises(Refusal) as refused:
        chat(**body)
    assert refused.value.param == param
    assert 400 <= refused.value.status < 500


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "model",
    "messages",
    "headrace",
    "metadata",
    "stream",
    "logprobs",
    "temperature",
    "max_tokens",
    "prompt",
    "n",
    "stream_options",
    "tools",
    "user",
    "seed",
    "top_k",
    "store",
)


@given(st.dictionaries(st.sampled_from(FIELDS), json), st.booleans())
def test_whatever_comes_is_admitted_or_refused_in_words(body, chat_):
    defaults = {"model": "support", "messages": ASK} if chat_ else {"model": "support", "prompt": "x"}
    try:
        admitted = admit({**defaults, **body}, {}, chat=chat_)
    except Refusal as refused:
        assert 400 <= refused.status < 500
        assert refused.message
    else:
        assert admitted.upstream["return_token_ids"] is True


def test_an_id_with_a_nul_is_refused_because_no_database_keeps_it():
    with pytest.raises(Refusal) as refused:
        chat(headrace={"actor": "a\x00b"})
    assert refused.value.param == "headrace.actor"


def test_a_body_that_can_be_read_but_not_passed_on_is_the_clients_fault():
    deep = []
    for _ in range(300):
        deep = [deep]
    upstream = chat(messages=[{"role": "user", "content": deep}]).upstream
    with pytest.raises(Refusal) as refused:
        body_of(upstream, "m")
    assert (refused.value.status, refused.value.code) == (400, "invalid_json")
