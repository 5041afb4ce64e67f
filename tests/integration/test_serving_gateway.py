"""The gateway over real HTTP, with the official OpenAI client, a fake engine, and the bus in memory or away."""

import asyncio
import contextlib
import time

import aiohttp
import openai
import orjson
import pytest
from aiohttp import web

from headrace_kit.errors import Retryable
from headrace_schemas import InferenceCompleted, topic_of
from headrace_schemas.ids import episode_of, is_inference_id
from headrace_serving.testing import FakeEngine, adapter_file
from tests.integration.serving_world import BASE, FACTS, SECRET, gateway, key, observed, ref, route


@pytest.fixture
async def engine():
    async with FakeEngine(BASE) as fake:
        yield fake


KEYS = (key("abcdefgh", "inference", "feedback"), key("evaluate", "evaluate"), key("feedback", "feedback"))
ASK = [{"role": "user", "content": "Where is my parcel?"}]


async def test_a_chat_answer_is_recorded_with_its_tokens_and_shows_what_was_asked_for(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        raw = await g.client().chat.completions.with_raw_response.create(
            model="support", messages=ASK, user="u1", metadata={"page": "home"}, temperature=0.5, max_tokens=50
        )
        answer = raw.parse()
        (record,) = await g.records()
    assert answer.choices[0].message.content == engine.answer
    assert answer.choices[0].logprobs is None
    assert "token_ids" not in answer.choices[0].model_extra
    assert "prompt_token_ids" not in answer.model_extra
    assert answer.model == "support@v0"
    assert is_inference_id(answer.id)
    assert raw.headers["x-headrace-inference-id"] == answer.id == record.inference_id
    assert raw.headers["x-headrace-episode-id"] == episode_of(answer.id) == record.episode_id
    assert raw.headers["x-headrace-version"] == "0"
    assert raw.headers["x-request-id"]
    assert record.state == "completed"
    assert record.completion == engine.answer
    assert record.variant == "base"
    assert len(record.completion_token_ids) == len(record.logprobs) == record.usage.completion_tokens > 3
    assert len(record.prompt_token_ids) == record.usage.prompt_tokens
    assert record.sampling.temperature == 0.5
    assert record.sampling.max_tokens == 50
    assert record.engine == FACTS
    assert record.replica == "r1"
    assert (record.actor, record.metadata, record.messages) == ("u1", {"page": "home"}, tuple(ASK))


async def test_a_stream_says_the_same_and_hides_what_was_not_asked_for(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        stream = await g.client().chat.completions.create(model="support", messages=ASK, stream=True)
        chunks = [chunk async for chunk in stream]
        (record,) = await g.records()
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == engine.answer == record.completion
    assert all(c.choices and c.usage is None for c in chunks)
    assert all(c.choices[0].logprobs is None and "token_ids" not in c.choices[0].model_extra for c in chunks)
    assert {c.id for c in chunks} == {record.inference_id}
    assert {c.model for c in chunks} == {"support@v0"}
    assert chunks[-1].choices[0].finish_reason == "stop" == record.finish_reason
    assert len(record.completion_token_ids) == len(record.logprobs) == record.usage.completion_tokens
    assert record.ttft_s is not None
    assert record.ttft_s <= record.latency_s


async def test_what_the_app_asks_for_it_gets(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        stream = await g.client().chat.completions.create(
            model="support",
            messages=ASK,
            stream=True,
            logprobs=True,
            stream_options={"include_usage": True},
            extra_body={"return_token_ids": True},
        )
        chunks = [chunk async for chunk in stream]
        plain = await g.client().completions.create(model="support", prompt="Once upon", logprobs=1, max_tokens=4)
        records = await g.records(2)
    assert chunks[-1].usage.completion_tokens == records[0].usage.completion_tokens
    shown = [e.logprob for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert shown == list(records[0].logprobs)
    ids = [t for c in chunks if c.choices for t in c.choices[0].model_extra.get("token_ids") or ()]
    assert ids == list(records[0].completion_token_ids)
    assert plain.choices[0].logprobs.token_logprobs == list(records[1].logprobs)
    assert records[1].prompt == "Once upon"
    assert records[1].inference_id == plain.id
    assert plain.id.startswith("cmpl-")
    assert records[1].finish_reason == "length"


async def test_plain_completions_stream_too(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        stream = await g.client().completions.create(model="support", prompt="Once", stream=True, max_tokens=100)
        chunks = [chunk async for chunk in stream]
        (record,) = await g.records()
    assert "".join(c.choices[0].text for c in chunks) == engine.answer == record.completion
    assert len(record.completion_token_ids) == len(record.logprobs) > 3
    assert record.prompt_token_ids


async def test_the_champions_adapter_answers_under_its_own_name(tmp_path, engine):
    champion = ref(7)
    folder = tmp_path / ("a" * 64)
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(adapter_file("Version seven on {prompt}"))
    engine.adapters[champion.engine_model] = folder
    async with gateway(tmp_path, route(champion=champion), *KEYS, observed(engine, champion)) as g:
        answer = await g.client().chat.completions.create(model="support", messages=ASK)
        base = await g.client().chat.completions.create(model="support@base", messages=ASK)
        records = await g.records(2)
    assert answer.choices[0].message.content == "Version seven on Where is my parcel?"
    assert answer.model == "support@v7"
    assert answer.system_fingerprint == "a" * 12
    assert (records[0].policy_version, records[0].adapter_digest, records[0].variant) == (7, "a" * 64, "champion")
    assert base.choices[0].message.content == engine.answer
    assert (records[1].policy_version, records[1].variant) == (0, "pinned")


@pytest.mark.parametrize("loaded", [True, False])
async def test_a_version_that_cannot_be_served_falls_back_and_the_record_says_so(tmp_path, engine, loaded):
    """Whether the agent has not reported it, or reported it and the engine has lost it."""
    champion, previous = ref(8, "b"), ref(7)
    engine.adapters[previous.engine_model] = tmp_path
    (tmp_path / "adapter_model.safetensors").write_bytes(adapter_file("Version seven"))
    seen = [champion, previous] if loaded else [previous]
    async with gateway(tmp_path, route(champion=champion, previous=previous), *KEYS, observed(engine, *seen)) as g:
        answer = await g.client().chat.completions.create(model="support", messages=ASK)
        del engine.adapters[previous.engine_model]
        last = await g.client().chat.completions.create(model="support", messages=ASK)
        with pytest.raises(openai.InternalServerError) as refused:
            await g.client().chat.completions.create(model="support@v8", messages=ASK)
        records = await g.records(3)
    assert answer.choices[0].message.content == "Version seven"
    assert answer.model == "support@v7"
    assert last.model == "support@v0"
    assert [(r.policy_version, r.fallback, r.state) for r in records[:2]] == [
        (7, True, "completed"),
        (0, True, "completed"),
    ]
    assert refused.value.status_code == 503
    assert refused.value.response.headers["retry-after"] == "2"
    assert records[2].state == "upstream_failed"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_closes_the_engine_within_100_ms(tmp_path, engine, stream):
    engine.delay_s = 0.1
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        body = {"model": "support", "messages": ASK, "stream": stream}
        headers = {"authorization": f"Bearer hr_abcdefgh_{SECRET}"}
        async with aiohttp.ClientSession() as http:
            asking = asyncio.create_task(http.post(f"{g.url}/v1/chat/completions", json=body, headers=headers))
            await asyncio.sleep(0.35)
            assert engine.running == 1
            if stream:
                (await asking).close()
            else:
                asking.cancel()
            began = time.perf_counter()
            async with asyncio.timeout(2):
                while engine.running:
                    await asyncio.sleep(0.002)
            assert time.perf_counter() - began < 1.0  # the bar of 100 ms is a benchmark, not a test
        (record,) = await g.records()
    assert record.state == "client_aborted"
    assert engine.closed_early == 1
    if stream:
        assert 0 < len(record.completion_token_ids) < 9
        assert record.usage.completion_tokens == len(record.completion_token_ids)


@pytest.mark.parametrize("how", ["break_after", "error_after"])
async def test_a_failure_in_the_middle_of_a_stream_is_one_error_line_then_the_end(tmp_path, engine, how):
    setattr(engine, how, 3)
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        body = {"model": "support", "messages": ASK, "stream": True}
        headers = {"authorization": f"Bearer hr_abcdefgh_{SECRET}"}
        async with aiohttp.ClientSession() as http:
            raw = await (await http.post(f"{g.url}/v1/chat/completions", json=body, headers=headers)).read()
        with pytest.raises(openai.APIError):
            async for _ in await g.client().chat.completions.create(model="support", messages=ASK, stream=True):
                pass
        records = await g.records(2)
    lines = [orjson.loads(line[6:]) for line in raw.split(b"\n\n") if line]
    assert [("error" in line) for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["error"]["code"] == "upstream_failed"
    assert [r.state for r in records] == ["upstream_failed"] * 2
    assert records[0].completion
    assert records[0].error


async def test_a_failure_before_the_first_byte_tries_another_replica(tmp_path, engine):
    engine.fail_with = 500
    async with FakeEngine(BASE, "The second engine says this.") as second:
        events = (route(), *KEYS, observed(engine), observed(second, replica="r2"))
        async with gateway(tmp_path, *events) as g:
            for _ in range(4):
                answer = await g.client().chat.completions.create(model="support", messages=ASK)
                assert answer.choices[0].message.content == "The second engine says this."
            records = await g.records(4)
    assert all(r.replica == "r2" and not r.fallback for r in records)
    assert len(engine.requests) <= 1 + 3  # it rests after its first failure


async def test_an_answer_that_takes_too_long_ends_in_a_timeout(tmp_path, engine):
    engine.delay_s = 0.2
    async with gateway(tmp_path, route(), *KEYS, observed(engine), timeout_s=0.3) as g:
        with pytest.raises(openai.InternalServerError) as late:
            await g.client().chat.completions.create(model="support", messages=ASK)
        (record,) = await g.records()
    assert late.value.status_code == 504
    assert record.state == "timeout"


async def test_keys_open_what_their_scopes_say(tmp_path, engine):
    candidate = ref(9, "c")
    engine.adapters[candidate.engine_model] = tmp_path
    (tmp_path / "adapter_model.safetensors").write_bytes(adapter_file("Version nine"))
    revoked = key("revoked1", "inference", revoked=True)
    events = (route(load=(candidate,)), *KEYS, revoked, observed(engine, candidate))
    async with gateway(tmp_path, *events) as g:
        for bad in ("hr_abcdefgh_" + "x" * 40, "sk-123", f"hr_unknown1_{SECRET}", f"hr_revoked1_{SECRET}"):
            with pytest.raises(openai.AuthenticationError) as refused:
                await openai.AsyncOpenAI(base_url=f"{g.url}/v1", api_key=bad).models.list()
            assert refused.value.code == "invalid_api_key"
        with pytest.raises(openai.PermissionDeniedError):
            await g.client("feedback").chat.completions.create(model="support", messages=ASK)
        with pytest.raises(openai.PermissionDeniedError, match="candidate"):
            await g.client().chat.completions.create(model="support@v9", messages=ASK)
        evaluated = await g.client("evaluate").chat.completions.create(model="support@v9", messages=ASK)
        listed = [m.id async for m in g.client().models.list()]
        listed_for_evaluation = [m.id async for m in g.client("evaluate").models.list()]
        (record,) = await g.records()
    assert evaluated.choices[0].message.content == "Version nine"
    assert (record.variant, record.train, record.policy_version) == ("candidate", False, 9)
    assert record.messages == ()  # a private suite's prompts do not leave evaluation
    assert record.completion == ""
    assert record.usage.completion_tokens > 0
    assert listed == ["support", "support@v0"]
    assert listed_for_evaluation == ["support", "support@v0", "support@v9"]


async def test_bad_requests_are_told_what_is_wrong_and_change_nothing(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine), max_body_bytes=2000) as g:
        headers = {"authorization": f"Bearer hr_abcdefgh_{SECRET}"}
        cases = [
            (b"{", 400, "invalid_json", None),
            (b"[]", 400, "invalid_json", None),
            (orjson.dumps({"model": "other", "messages": ASK}), 404, "model_not_found", "model"),
            (orjson.dumps({"model": "support@v4", "messages": ASK}), 404, "model_not_found", "model"),
            (orjson.dumps({"model": "support", "messages": "hello"}), 400, "invalid_value", "messages"),
            (orjson.dumps({"model": "support", "messages": ASK, "n": 2}), 400, "unsupported_value", "n"),
            (orjson.dumps({"model": "support", "messages": ASK, "x": 2}), 400, "unsupported_parameter", "x"),
            (
                orjson.dumps({"model": "support", "messages": ASK, "headrace": {"episode_id": "mine"}}),
                400,
                "invalid_episode_id",
                "headrace.episode_id",
            ),
            (orjson.dumps({"model": "support", "messages": [{"content": "x" * 3000}]}), 413, "too_large", None),
        ]
        async with aiohttp.ClientSession() as http:
            for body, status, code, param in cases:
                response = await http.post(f"{g.url}/v1/chat/completions", data=body, headers=headers)
                error = (await response.json())["error"]
                assert (response.status, error["code"], error["param"]) == (status, code, param), body[:60]
                assert error["message"]
        assert not engine.requests
        assert not g.broker.all(topic_of(InferenceCompleted).name())


async def test_what_the_engine_says_against_a_request_reaches_the_app(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        long = [{"role": "user", "content": "word " * 2000}]
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            await g.client().chat.completions.create(model="support", messages=long)
        (record,) = await g.records()
    assert record.state == "upstream_failed"
    assert not record.fallback


async def test_store_false_is_not_captured_and_retries_are_counted(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        await g.client().chat.completions.create(model="support", messages=ASK, store=False)
        await g.client().chat.completions.create(
            model="support",
            messages=ASK,
            extra_headers={"x-stainless-retry-count": "2"},
            extra_body={"headrace": {"train": False, "correlation_id": "order-7", "segment": "de"}},
        )
        (record,) = await g.records()
    assert (record.retry_count, record.train, record.correlation_id, record.segment) == (2, False, "order-7", "de")


async def test_an_episode_keeps_its_version_while_new_ones_get_the_new_champion(tmp_path, engine):
    first, second = ref(1), ref(2, "b")
    for version, digest in ((first, "a"), (second, "b")):
        folder = tmp_path / digest
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(adapter_file(f"version {version.version}"))
        engine.adapters[version.engine_model] = folder
    async with gateway(tmp_path, route(champion=first), *KEYS, observed(engine, first, second)) as g:
        answer = await g.client().chat.completions.create(model="support", messages=ASK)
        episode = {"x-headrace-episode-id": episode_of(answer.id)}
        await g.tell(route(epoch=2, champion=second, previous=first))
        same = await g.client().chat.completions.create(model="support", messages=ASK, extra_headers=episode)
        fresh = await g.client().chat.completions.create(model="support", messages=ASK)
        await g.tell(route(epoch=1, champion=first))  # an older state that comes late changes nothing
        later = await g.client().chat.completions.create(model="support", messages=ASK)
        records = await g.records(4)
    assert [answer.model, same.model, fresh.model, later.model] == [
        "support@v1",
        "support@v1",
        "support@v2",
        "support@v2",
    ]
    assert episode_of(same.id) == episode_of(answer.id)
    assert not any(r.fallback for r in records)


class AwayBus:
    """Kafka that cannot be reached."""

    async def start(self):
        raise Retryable("no Kafka")

    async def stop(self):
        pass

    async def publish(self, records):
        raise Retryable("no Kafka")

    async def read_all(self, topic):
        raise Retryable("no Kafka")


async def test_with_kafka_down_it_starts_serves_and_publishes_later(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)):
        pass
    async with gateway(tmp_path, bus=AwayBus()) as g:
        async with aiohttp.ClientSession() as http:
            assert (await http.get(f"{g.url}/health/ready")).status == 200
        answers = [(await g.client().chat.completions.create(model="support", messages=ASK)).id for _ in range(3)]
        assert not g.broker.all(topic_of(InferenceCompleted).name())
    async with gateway(tmp_path, route()) as g:
        records = await g.records(3)
    assert sorted(r.inference_id for r in records) == sorted(answers)


async def test_an_engine_without_an_agent_serves_the_base_model(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, engines=f"{BASE}={engine.url}") as g:
        answer = await g.client().chat.completions.create(model="support", messages=ASK)
    assert answer.choices[0].message.content == engine.answer


async def test_more_requests_than_allowed_at_once_are_told_to_come_again(tmp_path, engine):
    engine.delay_s = 0.05
    async with gateway(tmp_path, route(), *KEYS, observed(engine), max_in_flight=2) as g:
        asks = [g.client().chat.completions.create(model="support", messages=ASK) for _ in range(6)]
        answers = await asyncio.gather(*asks, return_exceptions=True)
        await g.records(2)
    refused = [a for a in answers if isinstance(a, openai.RateLimitError)]
    assert len(refused) == 4
    assert refused[0].response.headers["retry-after"] == "1"


async def test_feedback_is_relayed_with_the_keys_project(tmp_path, engine):
    seen = []

    async def feedback(request):
        seen.append((request.method, request.path, dict(request.headers), await request.read()))
        return web.json_response({"id": "fb_1"}, status=202)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", feedback)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with gateway(tmp_path, route(), *KEYS, observed(engine), feedback_url=url) as g:
        client = g.client("feedback")
        answer = await client.post("/feedback", body={"metric_name": "accepted", "value": True}, cast_to=object)
        await client.get("/feedback/fb_1", cast_to=object)
        await client.post("/feedback/batch", body=[], cast_to=object)
        await client.chat.completions.update("chatcmpl-x", metadata={"feedback.accepted": "true"})
        with pytest.raises(openai.PermissionDeniedError):
            await g.client("evaluate").post("/feedback", body={}, cast_to=object)
    await runner.cleanup()
    assert answer == {"id": "fb_1"}
    assert [(m, p) for m, p, _, _ in seen] == [
        ("POST", "/v1/feedback"),
        ("GET", "/v1/feedback/fb_1"),
        ("POST", "/v1/feedback/batch"),
        ("POST", "/v1/chat/completions/chatcmpl-x"),
    ]
    headers = {k.lower(): v for k, v in seen[0][2].items()}
    assert headers["x-headrace-project"] == "default"
    assert headers["authorization"] == "Bearer an-admin-token-of-length"
    assert orjson.loads(seen[0][3]) == {"metric_name": "accepted", "value": True}


async def test_feedback_that_cannot_be_taken_is_a_503_with_retry_after(tmp_path, engine):
    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        with pytest.raises(openai.InternalServerError) as away:
            await g.client().post("/feedback", body={}, cast_to=object)
    assert away.value.status_code == 503
    assert away.value.response.headers["retry-after"] == "2"


async def test_every_request_of_a_crowd_gets_exactly_one_record(tmp_path, engine):
    """A third of it leaves early."""
    engine.delay_s = 0.005
    answered = set()

    async def one(client, n):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.15 if n % 3 == 0 else 60):
                answer = await client.chat.completions.create(model="support", messages=ASK, stream=bool(n % 2))
                if n % 2:
                    answer = [chunk async for chunk in answer][-1]
                answered.add(answer.id)

    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        async with g.client() as client:
            await asyncio.gather(*(one(client, n) for n in range(60)))
        async with asyncio.timeout(20):
            while engine.running:
                await asyncio.sleep(0.05)
        records = await g.records(len(engine.requests))
    assert len(answered) >= 40
    assert len({r.inference_id for r in records}) == len(records) >= len(engine.requests)
    assert answered <= {r.inference_id for r in records if r.state == "completed"}
    assert {r.state for r in records} <= {"completed", "client_aborted"}


async def test_it_can_be_called_without_a_server(tmp_path, engine):
    """As the loop's tests do: the ASGI app behind httpx2's transport."""
    import httpx2

    async with gateway(tmp_path, route(), *KEYS, observed(engine)) as g:
        transport = httpx2.ASGITransport(app=g.service.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answer = await client.post(
                "/v1/chat/completions",
                json={"model": "support", "messages": ASK},
                headers={"authorization": f"Bearer hr_abcdefgh_{SECRET}"},
            )
        (record,) = await g.records()
    assert answer.status_code == 200
    assert answer.json()["id"] == record.inference_id
