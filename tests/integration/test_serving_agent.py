"""The agent over real HTTP beside a fake engine: what it loads, proves, refuses, reports and lets go."""

import asyncio

import pytest

from headrace_kit.errors import Retryable
from headrace_kit.testing import MemoryObjects
from headrace_schemas.ids import engine_model
from headrace_serving.testing import FakeEngine, adapter_file
from tests.integration.serving_world import BASE, World, agent


@pytest.fixture
async def engine():
    async with FakeEngine(BASE) as fake:
        yield fake


@pytest.fixture
def world():
    return World()


async def test_a_wanted_adapter_is_downloaded_checked_loaded_proved_and_reported(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one"))
    async with agent(tmp_path, world, engine):
        await world.route(load=(ref,))
        state = await world.state_of(ref, "ready")
        last = world.reports()[-1]
    assert state.probe.finite
    assert state.probe.differs_from_base
    assert state.probe.max_abs_logprob_delta > 0.01
    assert state.probe.seconds < 5
    assert last.ready(ref.engine_model)
    assert (last.url, last.base_model, last.engine.engine_version) == (engine.url, BASE, "0.32.0+fake")
    assert engine.adapters[ref.engine_model] == tmp_path / ref.digest
    assert (tmp_path / ref.digest / "adapter_model.safetensors").read_bytes() == adapter_file("one")
    asked = [r for r in engine.requests if r["model"] == ref.engine_model]
    assert max(r["truncate_prompt_tokens"] for r in asked) > 800


def nan(data=None):
    import numpy as np
    from safetensors.numpy import load, save

    good = adapter_file("nan")
    tensors = load(good)
    name = next(n for n in tensors if "lora_B" in n)
    tensors[name] = tensors[name].copy()
    tensors[name][0, 0] = np.nan
    from headrace_serving.adapter_store import read_header

    return save(tensors, metadata=read_header(good)["__metadata__"])


BAD = {
    "truncated": (lambda: adapter_file("x")[:-7], "whole safetensors"),
    "not a safetensors file": (lambda: b"PK\x03\x04 a zip file, perhaps", "not a safetensors"),
    "rank too high": (lambda: adapter_file("x", rank=32), "rank is 32"),
    "another base model": (lambda: adapter_file("x", base_model="llama"), "trained on 'llama'"),
    "the head": (lambda: adapter_file("x", modules=("lm_head",)), "changes lm_head"),
    "a config that reaches for code": (
        lambda: adapter_file("x", auto_mapping={"parent_library": "os"}),
        "auto_mapping",
    ),
    "not finite": (nan, "not finite"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_adapter_is_failed_with_the_reason_and_never_loaded(tmp_path, world, engine, kind):
    make, words = BAD[kind]
    ref, good = world.put(1, make()), world.put(2, adapter_file("good"))
    async with agent(tmp_path, world, engine):
        await world.route(load=(ref, good))
        state = await world.state_of(ref, "failed")
        await world.state_of(good, "ready")  # and it holds up nobody else
    assert words in state.probe.reason
    assert list(engine.adapters) == [good.engine_model]
    assert not (tmp_path / ref.digest).exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size_bytes": 7}, "the registry says 7"),
        ({"object_key": "elsewhere"}, "has no elsewhere"),
        ({"digest": "0" * 64, "engine_model": engine_model("support", 1, "0" * 64)}, "has the digest"),
    ],
)
async def test_a_file_that_is_not_the_registered_one_is_failed(tmp_path, world, engine, changes, words):
    ref = world.put(1, adapter_file("x"), **changes)
    async with agent(tmp_path, world, engine):
        await world.route(load=(ref,))
        state = await world.state_of(ref, "failed")
    assert words in state.probe.reason
    assert not engine.adapters


@pytest.mark.parametrize(("knob", "words"), [("useless", "changes nothing"), ("not_finite", "not finite")])
async def test_an_adapter_that_loads_and_does_not_work_is_unloaded_and_failed(tmp_path, world, engine, knob, words):
    ref = world.put(1, adapter_file("x"))
    getattr(engine, knob).add(ref.digest)
    async with agent(tmp_path, world, engine):
        await world.route(load=(ref,))
        state = await world.state_of(ref, "failed")
        await asyncio.sleep(0.1)
    assert words in state.probe.reason
    assert not engine.adapters


async def test_what_is_no_longer_wanted_stays_for_its_grace_and_then_goes(tmp_path, world, engine):
    one, two = world.put(1, adapter_file("one")), world.put(2, adapter_file("two"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=one)
        await world.state_of(one, "ready")
        await world.route(champion=two)
        await world.state_of(two, "ready")
        assert one.engine_model in engine.adapters
        await world.until(lambda r: [a.engine_model for a in r.adapters if a.state == "ready"] == [two.engine_model])
    assert list(engine.adapters) == [two.engine_model]


async def test_a_wanted_adapter_gets_the_place_of_an_unwanted_one(tmp_path, world, engine):
    one, two = world.put(1, adapter_file("one")), world.put(2, adapter_file("two"))
    async with agent(tmp_path, world, engine, max_adapters=1, grace_s=60):
        await world.route(champion=one)
        await world.state_of(one, "ready")
        await world.route(champion=two)
        await world.state_of(two, "ready")
        assert list(engine.adapters) == [two.engine_model]


async def test_a_restarted_engine_gets_its_adapters_again_before_it_is_ready(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=ref)
        await world.state_of(ref, "ready")
        await engine.stop()
        down = await world.until(lambda r: not r.healthy)
        assert not down.ready(ref.engine_model)
        await engine.start()
        up = await world.until(lambda r: r.ready(ref.engine_model))
    between = [r for r in world.reports() if down.sequence <= r.sequence < up.sequence]
    assert not any(r.ready(ref.engine_model) for r in between)
    assert ref.engine_model in engine.adapters


async def test_an_adapter_that_the_engine_lost_is_loaded_and_proved_again(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=ref)
        await world.state_of(ref, "ready")
        said = len(world.reports())
        engine.adapters.clear()
        # Loading takes no time here, so its report may not be the last one when one looks.
        await world.until(lambda _: any(not r.ready(ref.engine_model) for r in world.reports()[said:]))
        await world.state_of(ref, "ready")
        assert ref.engine_model in engine.adapters


async def test_a_restarted_agent_says_nothing_false_and_loads_nothing_twice(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=ref)
        await world.state_of(ref, "ready")
    said = len(world.reports())
    async with agent(tmp_path, world, engine):
        async with asyncio.timeout(5):
            while len(world.reports()) == said:
                await asyncio.sleep(0.01)
    assert all(r.ready(ref.engine_model) for r in world.reports()[said:])


async def test_a_store_that_is_away_is_waited_for(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one"))

    class Away(MemoryObjects):
        away = True

        async def size(self, key):
            if self.away:
                raise Retryable("no S3")
            return await super().size(key)

    world.objects = Away()
    ref = world.put(1, adapter_file("one"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=ref)
        await world.state_of(ref, "loading")
        world.objects.away = False
        await world.state_of(ref, "ready")


async def test_adapters_of_another_base_model_are_left_alone(tmp_path, world, engine):
    ref = world.put(1, adapter_file("one", base_model="other"))
    async with agent(tmp_path, world, engine):
        await world.route(champion=ref, base="other")
        last = await world.until(lambda r: r.healthy)
    assert last.adapters == ()
    assert not engine.adapters


async def test_an_engine_that_is_not_there_yet_is_reported_unhealthy(tmp_path, world, engine):
    await engine.stop()
    async with agent(tmp_path, world, engine) as service:
        down = await world.until(lambda r: not r.healthy)
        assert await service.checks["engine"]()
        await engine.start()
        await world.until(lambda r: r.healthy)
        assert await service.checks["engine"]() is None
    assert down.adapters == ()
