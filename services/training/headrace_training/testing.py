"""A trainer for tests of the loop: no torch, a few milliseconds, and an adapter that is valid."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from headrace_training.core.adapter import CONFIG_KEY, adapter_config, canonical
from headrace_training.core.dataset import ExitReason, RunManifest, RunResult, Sample
from headrace_training.recipes import LoraShape
from headrace_training.rundir import ADAPTER_FILE, append_line, digest_of, read_run, write_atomically

SHAPE = LoraShape(rank=2, alpha=4, target_modules=("q_proj",))
WIDTH = 8


class FakeTrainer:
    """See process.TrainerProcess. The adapter is a function of the dataset manifest and of nothing else."""

    def __init__(self) -> None:
        self.runs: list[tuple[RunManifest, list[Sample]]] = []

    async def run(self, folder: Path) -> int:
        """Always completes."""
        manifest, samples = read_run(folder)
        self.runs.append((manifest, samples))
        data = fake_adapter(manifest.digest, manifest.base_model)
        append_line(folder / "progress.jsonl", {"step": 0, "steps": 1, "loss": 0.0})
        write_atomically(folder / "adapter" / ADAPTER_FILE, data)
        result = RunResult(
            run_id=manifest.run_id,
            fencing_token=manifest.fencing_token,
            exit_reason=ExitReason.COMPLETED,
            adapter_sha256=digest_of(data),
            adapter_bytes=len(data),
            steps=1,
            metrics={"loss": 0.0},
        )
        write_atomically(folder / "result.json", result.model_dump_json().encode())
        return 0


def fake_adapter(seed: str, base_model: str) -> bytes:
    """Bytes of an adapter that changes one layer; `seed` is a digest in hex."""
    numbers = np.random.default_rng(int(seed[:16], 16))
    path = "base_model.model.model.layers.0.self_attn.q_proj"
    weights = {
        f"{path}.lora_A.weight": numbers.normal(0, 0.02, (SHAPE.rank, WIDTH)).astype(np.float32),
        f"{path}.lora_B.weight": numbers.normal(0, 0.02, (WIDTH, SHAPE.rank)).astype(np.float32),
    }
    return bytes(save(weights, metadata={CONFIG_KEY: canonical(adapter_config(SHAPE, base_model))}))
