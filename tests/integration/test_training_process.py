"""The trainer as a process; the fake does what the real one does, as far as the service can see."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from headrace_training.core.dataset import ExitReason, RunManifest, RunResult, refs
from headrace_training.process import SubprocessTrainer
from headrace_training.recipes import DEFAULT
from headrace_training.rundir import digest_of, write_run
from headrace_training.testing import FakeTrainer
from headrace_schemas.events import EngineFacts
from tests.integration.training_world import World, policy, route, running, trajectory
from tests.unit.training import tiny
from tests.unit.training.samples import sample


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tiny.make(folder)
    return folder


@pytest.fixture(params=["fake", "real"])
def trainer(request, models):
    return FakeTrainer() if request.param == "fake" else SubprocessTrainer(models)


def lay_out(folder, recipe=DEFAULT):
    samples = [sample(i, reward=float(i % 2), logprobs=(-5.5,) * 3) for i in range(4)]
    manifest = RunManifest(
        policy="support",
        base_model=tiny.NAME,
        recipe=recipe,
        seed=0,
        samples=refs(samples),
        run_id="r",
        fencing_token=1,
    )
    write_run(folder, manifest, samples)


async def test_a_trainer_leaves_a_result_that_names_its_adapter(trainer, tmp_path):
    from safetensors import safe_open

    lay_out(tmp_path)
    assert await trainer.run(tmp_path) == 0
    result = RunResult.model_validate_json((tmp_path / "result.json").read_text())
    data = (tmp_path / "adapter" / "adapter_model.safetensors").read_bytes()
    assert result.exit_reason is ExitReason.COMPLETED
    assert (result.adapter_sha256, result.adapter_bytes) == (digest_of(data), len(data))
    assert (tmp_path / "progress.jsonl").read_text().count("\n") == result.steps
    with safe_open(tmp_path / "adapter" / "adapter_model.safetensors", framework="np") as file:
        assert "headrace.adapter_config" in file.metadata()


async def test_a_cancelled_trainer_leaves_no_process_behind(models, tmp_path):
    lay_out(tmp_path)
    task = asyncio.create_task(SubprocessTrainer(models).run(tmp_path))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "result.json").exists() or "cancelled" in (tmp_path / "result.json").read_text()


async def test_sigterm_cancels_a_run_between_two_steps(models, tmp_path):
    lay_out(tmp_path, DEFAULT.model_copy(update={"passes": 5000}))
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace_training.trainer", str(tmp_path), "--models", str(models)]
    )
    try:
        while not (tmp_path / "progress.jsonl").exists():
            assert process.poll() is None
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
    finally:
        process.kill()
    result = RunResult.model_validate_json((tmp_path / "result.json").read_text())
    assert result.exit_reason is ExitReason.CANCELLED


async def test_the_service_trains_a_real_model_and_publishes_what_serving_would_load(models, database_url, tmp_path):
    from headrace_training.core.adapter import CONFIG_KEY

    world = World(database_url, tmp_path / "work", SubprocessTrainer(models), lease_s=10.0)
    await world.prepare()
    base = EngineFacts(base_model=tiny.NAME)
    async with running(world.service()):
        named = policy(events=4)
        spec = {**named.spec, "base_model": tiny.NAME}
        await world.send(named.model_copy(update={"spec": spec}), route().model_copy(update={"base_model": tiny.NAME}))
        logs = {"logprobs": (-5.5, -5.5), "engine": base}
        await world.send(*(trajectory(n, **logs) for n in range(3)), trajectory(3, correction="So it is.", **logs))
        saved = (await world.until(world.checkpoints, within=90))[0]
    data = world.objects.objects[saved.object_key]
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    config = json.loads(header["__metadata__"][CONFIG_KEY])
    assert config["base_model_name_or_path"] == tiny.NAME
    assert sum(name.endswith("lora_A.weight") for name in header) == 2 * len(DEFAULT.lora.target_modules)
    assert saved.metrics["seconds_training"] > 0
    assert saved.base_model == tiny.NAME
