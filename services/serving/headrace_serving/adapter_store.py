"""Adapters on this machine: downloaded by digest, checked, and laid down as a folder that the engine may read.

`<cache>/<sha256>/` holds `adapter_model.safetensors` and a config written by us. A folder appears whole or not at all,
and only after every check, so what is there is good.
"""

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from safetensors import SafetensorError, deserialize

from headrace_kit.errors import Rejected
from headrace_kit.objects import Objects
from headrace_schemas.base import VersionRef
from headrace_serving.core.adapter import AdapterConfig, Array, BadAdapter, check_names, check_weights, read_config

log = structlog.get_logger()
_MAX_HEADER = 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TYPES: dict[str, str] = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class AdapterStore:
    """One folder, shared by nobody."""

    def __init__(self, folder: Path, objects: Objects, max_rank: int, max_bytes: int) -> None:
        self._folder = folder.absolute()
        self._objects = objects
        self._max_rank = max_rank
        self._max_bytes = max_bytes
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob(".*.part"):
            shutil.rmtree(left, ignore_errors=True)

    async def fetch(self, ref: VersionRef, base_model: str, base_shapes: Mapping[str, tuple[int, ...]] | None) -> Path:
        """The folder of a verified adapter, from disk or from the object store.

        Raises BadAdapter for a file that must not be loaded, Retryable while the store is away.
        """
        if not _DIGEST.fullmatch(ref.digest):  # it becomes a path
            raise BadAdapter("the version has no digest that is a sha256 in hex")
        target = self._folder / ref.digest
        if target.is_dir():
            return target
        work = Path(tempfile.mkdtemp(prefix=f".{ref.digest[:12]}.", suffix=".part", dir=self._folder))
        try:
            await self._download(ref, work / "adapter_model.safetensors")
            config = await asyncio.to_thread(
                verify, work / "adapter_model.safetensors", base_model, base_shapes, self._max_rank
            )
            (work / "adapter_config.json").write_text(
                json.dumps(config.regenerated(base_model), indent=1, sort_keys=True)
            )
            work.chmod(0o755)
            work.replace(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return target

    async def _download(self, ref: VersionRef, path: Path) -> None:
        if not ref.object_key:
            raise BadAdapter("the version has no object key")
        size = await self._objects.size(ref.object_key)
        if size is None:
            raise BadAdapter(f"the object store has no {ref.object_key}")
        if ref.size_bytes and size != ref.size_bytes:
            raise BadAdapter(f"{ref.object_key} has {size} bytes, the registry says {ref.size_bytes}")
        if size > self._max_bytes:
            raise BadAdapter(f"{ref.object_key} has {size} bytes, at most {self._max_bytes} are taken")
        digest = hashlib.sha256()
        try:
            await self._objects.download(ref.object_key, path, limit=size, digest=digest)
        except Rejected as reason:
            raise BadAdapter(reason.message) from reason
        if digest.hexdigest() != ref.digest:
            raise BadAdapter(f"{ref.object_key} has the digest {digest.hexdigest()[:12]}…, not {ref.digest[:12]}…")

    def forget(self, keep: set[str], older_than_s: float, now: float) -> None:
        """Delete folders of adapters that nobody wants and that were made long ago (`now` is the wall clock's)."""
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name not in keep and now - folder.stat().st_mtime > older_than_s:
                log.info("adapter deleted from the cache", digest=folder.name[:12])
                shutil.rmtree(folder, ignore_errors=True)


def verify(
    path: Path, base_model: str, base_shapes: Mapping[str, tuple[int, ...]] | None, max_rank: int
) -> AdapterConfig:
    """Every check on one file. Raises BadAdapter."""
    data = path.read_bytes()
    header = read_header(data[: 8 + _MAX_HEADER])
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadAdapter("the file's metadata do not map names to text")
    config = read_config(metadata, base_model, max_rank)
    pairs = check_names(list(header), config)
    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise BadAdapter(f"the file is not a whole safetensors file: {error}") from None
    check_weights(pairs, {name: _array(name, raw) for name, raw in found}, config, base_shapes)
    return config


def read_header(start: bytes) -> dict[str, Any]:
    """The JSON header of a safetensors file. Raises BadAdapter where there is none within a MiB."""
    length = int.from_bytes(start[:8], "little")
    if len(start) < 10 or not 2 <= length <= _MAX_HEADER or 8 + length > len(start):
        raise BadAdapter("the file is not a safetensors file, or its header is larger than a MiB")
    try:
        header = json.loads(start[8 : 8 + length])
    except (ValueError, RecursionError):
        raise BadAdapter("the file is not a safetensors file: its header is not JSON") from None
    if not isinstance(header, dict):
        raise BadAdapter("the file is not a safetensors file: its header is not an object")
    return header


def _array(name: str, raw: Mapping[str, Any]) -> Array:
    if raw["dtype"] not in _TYPES:
        raise BadAdapter(f"{name} is of type {raw['dtype']}; float32, float16 and bfloat16 are taken")
    array: Array = np.frombuffer(raw["data"], dtype=np.dtype(_TYPES[raw["dtype"]])).reshape(raw["shape"])
    if raw["dtype"] == "BF16":  # numpy has no bfloat16: it is the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array
