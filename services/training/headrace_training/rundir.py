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
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace_training.core.faults import BrokenManifest
from headrace_training.recipes import Recipe

ADAPTER_FILE = "adapter_model.safetensors"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Sample(_Frozen):
    """One answer and what was said of it: all that an objective may look at."""

    sample_id: str
    """The trajectory's id."""
    revision: int = Field(0, ge=0)
    """The trajectory's revision that was frozen into the run."""
    inference_id: str
    """The inference that answered."""
    messages: tuple[dict[str, Any], ...] = ()
    """The conversation up to the answer."""
    prompt_token_ids: tuple[int, ...]
    """As the engine saw them; never re-tokenised."""
    completion_token_ids: tuple[int, ...]
    """As the engine sampled them, with the end token if it came to that."""
    logprobs: tuple[float, ...]
    """Of each completion token under the policy that sampled it, after temperature."""
    temperature: float = Field(1.0, ge=0)
    """Temperature it was sampled with; 0 is greedy, whose logprobs are the raw ones."""
    reward: float | None = Field(None, ge=0, le=1)
    """None when nobody judged the answer itself, as for most corrections."""
    demonstration: str | None = None
    """The answer as it should have been."""
    comments: tuple[str, ...] = ()
    """What was said of it in words."""
    weight: float = Field(1.0, ge=0)
    """How much the reward is trusted."""
    policy_version: int = Field(0, ge=0)
    """Adapter version that answered; 0 is the base model."""
    staleness: int = Field(0, ge=0)
    """Versions between the one that answered and the run's parent."""
    actor: str | None = None
    """Pseudonym of who gave the feedback."""
    segment: str | None = None
    """Where the inference belongs: the finest level of the baseline."""

    def canonical(self) -> str:
        """The sample as one line of canonical JSON."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        """sha256 of the canonical line, hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


class SampleRef(_Frozen):
    """A sample by name and content."""

    sample_id: str
    revision: int
    sha256: str


class AdapterRef(_Frozen):
    """An adapter version by number and content."""

    version: int = Field(ge=1)
    digest: str


class DatasetManifest(_Frozen):
    """What an adapter is a function of. Two runs with the same digest learn the same thing."""

    policy: str
    base_model: str
    parent: AdapterRef | None = None
    recipe: Recipe
    seed: int
    samples: tuple[SampleRef, ...]

    @property
    def digest(self) -> str:
        """sha256 over canonical JSON of the fields above and no others."""
        body = self.model_dump(mode="json", include=set(DatasetManifest.model_fields))
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class RunManifest(DatasetManifest):
    """The dataset manifest together with the run that it was frozen for."""

    run_id: str
    fencing_token: int
    """Grows with each claim of the run; a durable write with an older token is refused."""


class ExitReason(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    DIVERGED = "diverged"
    OOM = "oom"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RunResult(_Frozen):
    """What the trainer says when it is done."""

    run_id: str
    fencing_token: int
    exit_reason: ExitReason
    reason: str | None = None
    """One sentence when it did not complete."""
    adapter_sha256: str | None = None
    adapter_bytes: int | None = None
    steps: int = 0
    metrics: dict[str, float] = {}


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
        if not parent.is_file() or hashlib.sha256(parent.read_bytes()).hexdigest() != manifest.parent.digest:
            raise BrokenManifest(f"parent of run {manifest.run_id} is not version {manifest.parent.version}'s file")
    return manifest, samples


def refs(samples: list[Sample]) -> tuple[SampleRef, ...]:
    """How a manifest names these samples."""
    return tuple(SampleRef(sample_id=s.sample_id, revision=s.revision, sha256=s.digest) for s in samples)


def append_line(path: Path, row: dict[str, Any]) -> None:
    """One JSON line; readers may follow the file while it grows."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
