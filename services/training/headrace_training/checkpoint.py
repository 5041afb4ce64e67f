"""An adapter file on its way out: into the object store as a plain PEFT folder, and as the fact that it is there."""

import json
import math
from datetime import datetime

from headrace_kit.objects import Objects
from headrace_schemas import CheckpointSaved
from headrace_training.core.adapter import adapter_config
from headrace_training.core.dataset import DatasetManifest, RunResult
from headrace_training.core.run import Run
from headrace_training.rundir import ADAPTER_FILE


def adapter_key(policy: str, digest: str) -> str:
    """Where an adapter file lies in the object store."""
    return f"adapters/{policy}/{digest}/{ADAPTER_FILE}"


async def upload(objects: Objects, run: Run, manifest: DatasetManifest, result: RunResult, data: bytes) -> str:
    """The folder of an adapter, its weights last; the key of the weights. By content, so that twice is harmless.

    The config and the lineage beside the file are for people and tools: nothing of ours reads them back.
    """
    assert result.adapter_sha256 is not None
    key = adapter_key(run.policy, result.adapter_sha256)
    folder = key.removesuffix(ADAPTER_FILE)
    config = {**adapter_config(manifest.recipe.lora, run.base_model), "inference_mode": True, "lora_dropout": 0.0}
    lineage = {
        "policy": run.policy,
        "base_model": run.base_model,
        "digest": result.adapter_sha256,
        "run_id": run.run_id,
        "parent": manifest.parent.model_dump() if manifest.parent else None,
        "manifest_digest": manifest.digest,
        "samples": len(manifest.samples),
        "recipe": manifest.recipe.name,
        "recipe_digest": manifest.recipe.digest,
        "spec_digest": run.spec_digest,
        "seed": manifest.seed,
    }
    for name, document in (("adapter_config.json", config), ("lineage.json", lineage)):
        await objects.put(folder + name, json.dumps(document, indent=1, sort_keys=True).encode(), "application/json")
    await objects.put(key, data)
    return key


def saved(
    run: Run, manifest: DatasetManifest, result: RunResult, key: str, metrics: dict[str, float], now: datetime
) -> CheckpointSaved:
    """The fact. `run` is as it was after its dataset was frozen."""
    assert result.adapter_sha256 is not None
    assert result.adapter_bytes is not None
    assert run.manifest_key is not None
    return CheckpointSaved(
        project=run.project,
        occurred_at=now,
        policy=run.policy,
        base_model=run.base_model,
        run_id=run.run_id,
        parent_version=run.parent_version,
        parent_digest=run.parent_digest if run.parent_version else "",
        digest=result.adapter_sha256,
        object_key=key,
        size_bytes=result.adapter_bytes,
        manifest_digest=manifest.digest,
        manifest_key=run.manifest_key,
        samples=len(manifest.samples),
        recipe=manifest.recipe.name,
        recipe_digest=manifest.recipe.digest,
        spec_digest=run.spec_digest,
        fencing_token=run.fencing_token,
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
    )
