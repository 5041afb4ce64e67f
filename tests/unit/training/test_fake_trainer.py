"""The fake does what the real trainer does, as far as the service can see."""

import asyncio

import pytest

from headrace_training.core.dataset import ExitReason, RunManifest, RunResult, refs
from headrace_training.process import SubprocessTrainer
from headrace_training.recipes import DEFAULT
from headrace_training.rundir import digest_of, write_run
from headrace_training.testing import FakeTrainer
from tests.unit.training import tiny
from tests.unit.training.samples import sample


@pytest.fixture(params=["fake", "real"])
def trainer(request, models):
    return FakeTrainer() if request.param == "fake" else SubprocessTrainer(models)


def lay_out(folder, token=1):
    samples = [sample(i, reward=float(i % 2), logprobs=(-5.5,) * 3) for i in range(4)]
    manifest = RunManifest(
        policy="support", base_model=tiny.NAME, recipe=DEFAULT, seed=0, samples=refs(samples), run_id="r", fencing_token=token
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
