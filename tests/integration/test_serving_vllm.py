"""Gateway and agent on real vLLM with SmolLM2: what the fake engine pretends, held to the real thing.

HEADRACE_TEST_ENGINE_URL names an engine that already runs; else one is started, where the model is on this machine.
"""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save

from headrace_local import engine as local_engine
from headrace_local import models, parts, ports
from headrace_serving.adapter_store import verify
from headrace_serving.base_facts import read_base
from headrace_serving.core.adapter import CONFIG_KEY, BadAdapter
from tests.integration.serving_world import World, agent, gateway, key

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]
MODEL = models.SMOLLM2
WIDTHS = {"q_proj": (576, 576), "v_proj": (576, 192), "down_proj": (1536, 576)}
ASK = [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}]


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory):
    if url := os.environ.get("HEADRACE_TEST_ENGINE_URL"):
        yield url
        return
    folder = models.locate(None)
    if not models.is_complete(folder):
        pytest.skip(f"{folder} holds no model: make it with python -m headrace_local.models {folder}")
    port = ports.choose(["vllm"])["vllm"]
    with parts.running([local_engine.spec(folder, port)], tmp_path_factory.mktemp("vllm")):
        yield f"http://127.0.0.1:{port}"


class RealEngine:
    def __init__(self, url):
        self.url = url


def lora(*, layers=range(30), modules=("q_proj", "v_proj", "down_proj"), rank=8, size=0.05, seed=0):
    """An adapter in PEFT's layout for SmolLM2-135M."""
    random = np.random.default_rng(seed)
    tensors = {}
    for layer in layers:
        for module in modules:
            inside, outside = WIDTHS[module]
            block = "mlp" if module == "down_proj" else "self_attn"
            path = f"base_model.model.model.layers.{layer}.{block}.{module}"
            tensors[f"{path}.lora_A.weight"] = random.normal(0, 0.02, (rank, inside)).astype(np.float32)
            tensors[f"{path}.lora_B.weight"] = random.normal(0, size, (outside, rank)).astype(np.float32)
    said = {
        "base_model_name_or_path": MODEL,
        "bias": "none",
        "lora_alpha": 16,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": sorted(modules),
        "task_type": "CAUSAL_LM",
    }
    return save(tensors, metadata={CONFIG_KEY: json.dumps(said)})


async def test_an_adapter_is_proved_serves_and_is_let_go_and_one_that_matches_nothing_is_failed(tmp_path, engine_url):
    world, engine = World(), RealEngine(engine_url)
    good, nothing = world.put(1, lora()), world.put(2, lora(layers=[99], seed=1))
    keys = (key("abcdefgh", "inference"), key("evaluate", "evaluate"))
    async with agent(tmp_path / "agent", world, engine, engine_timeout_s=120, grace_s=1, poll_s=0.5) as service:
        await world.until(lambda r: r.healthy, 30)
        await world.route(base=MODEL, load=(good, nothing))
        ready = await world.until(lambda r: any(a.version == 1 and a.state != "loading" for a in r.adapters), 120)
        done = await world.until(lambda r: any(a.version == 2 and a.state != "loading" for a in r.adapters), 120)
        states = {a.version: a for a in done.adapters}
        print(states)
        assert ready.ready(good.engine_model)
        assert states[1].probe.max_abs_logprob_delta > 0.01
        assert states[2].state == "failed"
        assert "changes nothing" in states[2].probe.reason
        assert done.engine.engine_version.startswith("0.32")

        route = list(service.tasks["routes"].__self__.values())
        async with gateway(tmp_path / "gateway", *route, *keys, done) as g:
            client, judge = g.client(), g.client("evaluate")
            asked = {"messages": ASK, "temperature": 0, "max_tokens": 24}
            whole = await client.chat.completions.create(model="support", **asked)
            chunks = [c async for c in await client.chat.completions.create(model="support", stream=True, **asked)]
            plain = await client.completions.create(model="support", prompt="The capital of France is", max_tokens=5)
            pieces = [
                c
                async for c in await client.completions.create(
                    model="support", prompt="The capital of France is", max_tokens=5, temperature=0, stream=True
                )
            ]
            tuned = await judge.chat.completions.create(model="support@v1", **asked)
            records = await g.records(5)
        by_id = {r.inference_id: r for r in records}
        first, streamed = by_id[whole.id], by_id[chunks[0].id]
        print(first.completion, "|", tuned.choices[0].message.content)
        assert "Paris" in first.completion
        assert first.completion == whole.choices[0].message.content == streamed.completion
        assert streamed.completion == "".join(c.choices[0].delta.content or "" for c in chunks)
        assert whole.choices[0].logprobs is None
        assert first.completion_token_ids == streamed.completion_token_ids
        assert first.prompt_token_ids == streamed.prompt_token_ids
        for record in records:
            if record.variant == "candidate":
                continue
            assert record.state == "completed"
            assert len(record.completion_token_ids) == len(record.logprobs) == record.usage.completion_tokens > 0
            assert len(record.prompt_token_ids) == record.usage.prompt_tokens > 0
            assert all(value <= 0 for value in record.logprobs)
        assert first.completion_token_ids[-1] == 2 or first.finish_reason == "length"
        assert np.allclose(first.logprobs, streamed.logprobs, atol=1e-3)
        assert "".join(p.choices[0].text for p in pieces) == by_id[pieces[0].id].completion
        assert by_id[plain.id].prompt == "The capital of France is"
        assert tuned.model == "support@v1"

        await world.route(base=MODEL)
        await world.until(lambda r: not any(a.state == "ready" for a in r.adapters), 30)


def test_with_the_models_folder_an_adapter_that_matches_nothing_is_refused_before_the_engine(tmp_path):
    folder = models.locate(None)
    if not models.is_complete(folder):
        pytest.skip("the model is not on this machine")
    facts = read_base(folder.parent, MODEL)
    assert len(facts.chat_template_hash) == len(facts.tokenizer_hash) == 64
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(lora())
    bad.write_bytes(lora(layers=[99]))
    assert verify(good, MODEL, facts.shapes, 16).rank == 8
    with pytest.raises(BadAdapter, match="no model.layers.99"):
        verify(bad, MODEL, facts.shapes, 16)
