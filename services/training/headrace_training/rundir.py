"""A run's folder: what the worker writes, what the trainer reads, and what the trainer leaves behind.

manifest.json                       what the run is a function of, and the fencing token it may write with
samples.jsonl                       one sample a line, in the manifest's order
parent/adapter_model.safetensors    absent when the run starts from the base model
progress.jsonl                      one line a step, appended
adapter/adapter_model.safetensors   written to a neighbour first and renamed
result.json                         how it ended; its presence means the trainer is done
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace_training.core.dataset import RunManifest, Sample, refs
from headrace_training.core.faults import BrokenManifest

ADAPTER_FILE = "adapter_model.safetensors"


def write_atomically(path: Path, data: bytes) -> None:
    """The file is there whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def write_run(folder: Path, manifest: RunManifest, samples: list[Sample]) -> None:
    """Lay out a run's folder, manifest last, so that a folder with a manifest is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "samples.jsonl", "".join(s.canonical() + "\n" for s in samples).encode())
    write_atomically(folder / "manifest.json", manifest.model_dump_json(indent=1).encode())


def read_run(folder: Path) -> tuple[RunManifest, list[Sample]]:
    """Manifest and samples of a run; BrokenManifest where a file is missing, malformed, or not what was frozen."""
    try:
        manifest = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
        lines = (folder / "samples.jsonl").read_text("utf-8").splitlines()
        samples = [Sample.model_validate_json(line) for line in lines]
    except (OSError, ValidationError) as fault:
        raise BrokenManifest(f"cannot read the run in {folder.name}: {fault}") from fault
    if refs(samples) != manifest.samples:
        raise BrokenManifest(f"samples of run {manifest.run_id} are not the ones in its manifest")
    if manifest.parent is not None:
        parent = folder / "parent" / ADAPTER_FILE
        if not parent.is_file() or digest_of(parent.read_bytes()) != manifest.parent.digest:
            raise BrokenManifest(f"parent of run {manifest.run_id} is not version {manifest.parent.version}'s file")
    return manifest, samples


def digest_of(data: bytes) -> str:
    """sha256, hex."""
    return hashlib.sha256(data).hexdigest()


def append_line(path: Path, row: dict[str, Any]) -> None:
    """One JSON line; readers may follow the file while it grows."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
