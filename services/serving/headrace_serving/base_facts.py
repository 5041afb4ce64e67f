"""What the agent reads of a base model's folder: hashes that tie records to it, and the shapes adapters must fit."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BaseFacts:
    """Empty where the folder is not known."""

    chat_template_hash: str = ""
    tokenizer_hash: str = ""
    dtype: str = ""
    shapes: Mapping[str, tuple[int, ...]] | None = field(default=None, repr=False)
    """Weight name → shape."""


def read_base(models: Path | None, base_model: str) -> BaseFacts:
    """From `models/<name>`, or `models/<last part of the name>`. Raises OSError or ValueError for a broken folder."""
    if models is None:
        return BaseFacts()
    for folder in (models / base_model, models / base_model.rsplit("/", 1)[-1]):
        if (folder / "config.json").is_file():
            config = json.loads((folder / "config.json").read_text())
            return BaseFacts(
                chat_template_hash=_hash(_chat_template(folder)),
                tokenizer_hash=_hash(_tokenizer(folder)),
                dtype=str(config.get("dtype") or config.get("torch_dtype") or ""),
                shapes=_shapes(folder) or None,
            )
    return BaseFacts()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data else ""


def _chat_template(folder: Path) -> bytes:
    """Transformers writes it beside the tokenizer's config; older folders have it inside."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_bytes()
    path = folder / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    template = config.get("chat_template")
    return template.encode() if isinstance(template, str) else b""


def _tokenizer(folder: Path) -> bytes:
    path = folder / "tokenizer.json"
    return path.read_bytes() if path.is_file() else b""


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            start = file.read(8)
            start += file.read(int.from_bytes(start, "little"))
        header: dict[str, Any] = json.loads(start[8:])
        shapes |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    return shapes
