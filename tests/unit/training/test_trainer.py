import hashlib
import json

import pytest
from safetensors import safe_open

from headrace_training.recipes import DEFAULT
from headrace_training.core.dataset import ExitReason, RunManifest, RunResult, refs
from headrace_training.rundir import write_run
from headrace_training.trainer import main, out_of_memory
from tests.unit.training import tiny
from tests.unit.training.samples import sample


def lay_out(folder, samples, **fields):
    given = dict(
        policy="support",
        base_model=tiny.NAME,
        recipe=DEFAULT,
        seed=1,
        samples=refs(samples),
        run_id="r1",
        fencing_token=7,
    )
    write_run(folder, RunManifest(**{**given, **fields}), samples)


def outcome(folder):
    return RunResult.model_validate_json((folder / "result.json").read_text())


SAMPLES = [sample(i, reward=float(i % 2), logprobs=(-5.5, -5.5, -5.5)) for i in range(6)]


def test_a_run_leaves_an_adapter_its_progress_and_a_result(models, tmp_path):
    lay_out(tmp_path, SAMPLES)
    assert main([str(tmp_path), "--models", str(models)]) == 0
    result = outcome(tmp_path)
    data = (tmp_path / "adapter" / "adapter_model.safetensors").read_bytes()
    assert result.exit_reason is ExitReason.COMPLETED
    assert result.adapter_sha256 == hashlib.sha256(data).hexdigest()
    assert (result.run_id, result.fencing_token) == ("r1", 7)
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) == result.steps > 0
    with safe_open(tmp_path / "adapter" / "adapter_model.safetensors", framework="pt") as file:
        config = json.loads(file.metadata()["headrace.adapter_config"])
    assert config["r"] == DEFAULT.lora.rank
    assert config["base_model_name_or_path"] == tiny.NAME


def test_running_it_again_gives_the_same_digest(models, tmp_path):
    digests = []
    for _ in range(2):
        lay_out(tmp_path, SAMPLES)
        main([str(tmp_path), "--models", str(models)])
        digests.append(outcome(tmp_path).adapter_sha256)
    assert digests[0] == digests[1]


def test_samples_that_teach_nothing_end_in_a_sentence(models, tmp_path):
    lay_out(tmp_path, [sample(reward=None)])
    main([str(tmp_path), "--models", str(models)])
    assert outcome(tmp_path).exit_reason is ExitReason.FAILED
    assert "teaches" in outcome(tmp_path).reason
    assert not (tmp_path / "adapter").exists()


def test_a_missing_base_model_ends_in_a_sentence(models, tmp_path):
    lay_out(tmp_path, SAMPLES, base_model="gone")
    main([str(tmp_path), "--models", str(models)])
    assert "gone" in outcome(tmp_path).reason


@pytest.mark.parametrize("words", ["CUDA out of memory. Tried", "DefaultCPUAllocator: can't allocate memory: you"])
def test_memory_that_ran_out_is_told_from_other_errors(words):
    assert out_of_memory(RuntimeError(words))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
