"""A run's dataset: frozen once, kept in the object store by content, laid out in a folder for the trainer."""

from pathlib import Path

from pydantic import ValidationError

from headrace_kit.errors import Rejected
from headrace_kit.objects import Objects
from headrace_training.core.dataset import AdapterRef, DatasetManifest, RunManifest, Sample, refs
from headrace_training.core.faults import BrokenManifest
from headrace_training.core.run import Run
from headrace_training.recipes import recipe
from headrace_training.rundir import ADAPTER_FILE, write_run


def manifest_of(run: Run, samples: list[Sample]) -> DatasetManifest:
    """What the run is a function of. Raises UnknownRecipe."""
    return DatasetManifest(
        policy=run.policy,
        base_model=run.base_model,
        parent=AdapterRef(version=run.parent_version, digest=run.parent_digest) if run.parent_version else None,
        recipe=recipe(run.recipe),
        seed=run.seed,
        samples=refs(samples),
    )


def manifest_key(policy: str, digest: str) -> str:
    """Where a manifest lies in the object store; its samples are beside it."""
    return f"manifests/{policy}/{digest}.json"


def samples_key(key: str) -> str:
    return key.removesuffix(".json") + ".samples.jsonl"


async def keep(objects: Objects, manifest: DatasetManifest, samples: list[Sample]) -> str:
    """Store manifest and samples, the manifest last; its key. Keys are by content, so that twice is harmless."""
    key = manifest_key(manifest.policy, manifest.digest)
    lines = "".join(s.canonical() + "\n" for s in samples)
    await objects.put(samples_key(key), lines.encode(), "application/x-ndjson")
    await objects.put(key, manifest.model_dump_json(indent=1).encode(), "application/json")
    return key


async def fetch(objects: Objects, key: str, digest: str) -> tuple[DatasetManifest, list[Sample]]:
    """A dataset that was kept. Raises BrokenManifest where it is not what it was."""
    try:
        manifest = DatasetManifest.model_validate_json(await objects.get(key))
        lines = (await objects.get(samples_key(key))).decode().split("\n")[:-1]
        samples = [Sample.model_validate_json(line) for line in lines]
    except (Rejected, ValidationError, UnicodeDecodeError) as fault:
        raise BrokenManifest(f"the dataset {key} cannot be read: {fault}") from fault
    if manifest.digest != digest or manifest.samples != refs(samples):
        raise BrokenManifest(f"the dataset {key} is not the one that was frozen")
    return manifest, samples


async def lay_out(folder: Path, run: Run, manifest: DatasetManifest, samples: list[Sample], objects: Objects) -> None:
    """The run's folder, as the trainer reads it."""
    if manifest.parent is not None:
        (folder / "parent").mkdir(parents=True, exist_ok=True)
        await objects.download(run.parent_key, folder / "parent" / ADAPTER_FILE)
    whole = RunManifest(**dict(manifest), run_id=run.run_id, fencing_token=run.fencing_token)
    write_run(folder, whole, samples)
