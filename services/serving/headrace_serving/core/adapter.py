"""What an adapter file must be before an engine sees it: only LoRA weights, whole, finite, of the shapes of its base.

Nothing of the file is trusted but numbers: names are matched against one pattern, its config against an allow-list, and
the engine gets a config that is written anew. Engines check none of this (vLLM 0.32 answers 200 to an adapter whose
modules match nothing, and to one full of NaN).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIG_KEY = "headrace.adapter_config"
"""Key in the file's metadata under which its config travels, so that one digest binds weights and config."""
MODULES = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"})
"""Linear layers that an adapter may change; never the embeddings or the head."""
MAX_TENSORS = 4096
MAX_NORM = 1000.0
"""Bound on ‖A‖·‖B‖·scale per module (Frobenius): above the norm of the change that it makes to a weight."""
_CONFIG = {
    "base_model_name_or_path",
    "bias",
    "lora_alpha",
    "peft_type",
    "r",
    "target_modules",
    "task_type",
    "use_rslora",
}
_TENSOR = re.compile(
    r"^base_model\.model\.(?P<path>[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\.(?P<module>[a-z_]+))\.lora_(?P<side>[AB])\.weight$"
)
Array = NDArray[np.generic]


class BadAdapter(ValueError):
    """The file must not be loaded; the message says why in one sentence."""


@dataclass(frozen=True)
class AdapterConfig:
    """The allow-listed config."""

    rank: int
    alpha: float
    target_modules: tuple[str, ...]
    rslora: bool

    @property
    def scale(self) -> float:
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)

    def regenerated(self, base_model: str) -> dict[str, Any]:
        """The `adapter_config.json` that the engine reads."""
        return {
            "base_model_name_or_path": base_model,
            "bias": "none",
            "inference_mode": True,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "modules_to_save": None,
            "peft_type": "LORA",
            "r": self.rank,
            "target_modules": sorted(self.target_modules),
            "task_type": "CAUSAL_LM",
            "use_dora": False,
            "use_rslora": self.rslora,
        }


def read_config(metadata: Mapping[str, str], base_model: str, max_rank: int) -> AdapterConfig:
    """The config inside a file's metadata. Raises BadAdapter."""
    try:
        said = json.loads(metadata[CONFIG_KEY])
    except KeyError:
        raise BadAdapter(f"the file's metadata has no {CONFIG_KEY}") from None
    except (ValueError, RecursionError):
        raise BadAdapter(f"{CONFIG_KEY} in the file's metadata is not JSON") from None
    if not isinstance(said, dict):
        raise BadAdapter(f"{CONFIG_KEY} in the file's metadata is not an object")
    if unknown := sorted(set(said) - _CONFIG):
        raise BadAdapter(f"the adapter's config has {unknown[0]!r}, which is not allowed")
    for name, allowed in (("peft_type", "LORA"), ("bias", "none"), ("task_type", "CAUSAL_LM")):
        if said.get(name, allowed) != allowed:
            raise BadAdapter(f"the adapter's {name} is {said[name]!r}, and only {allowed} is served")
    stated = said.get("base_model_name_or_path")
    if stated is not None and stated != base_model:
        raise BadAdapter(f"the adapter was trained on {stated!r}, this engine serves {base_model}")
    rank, alpha = said.get("r"), said.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or not rank >= 1:
        raise BadAdapter(f"the adapter's rank is {rank!r}")
    if rank > max_rank:
        raise BadAdapter(f"the adapter's rank is {rank}, this engine takes at most {max_rank}")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha <= 65536:
        raise BadAdapter(f"the adapter's lora_alpha is {alpha!r}")
    targets = said.get("target_modules")
    if not isinstance(targets, list) or not targets or not all(isinstance(t, str) for t in targets):
        raise BadAdapter("the adapter names no target_modules")
    if outside := sorted(set(targets) - MODULES):
        raise BadAdapter(f"the adapter changes {outside[0]}, and only {', '.join(sorted(MODULES))} may be changed")
    if not isinstance(said.get("use_rslora", False), bool):
        raise BadAdapter("the adapter's use_rslora is neither true nor false")
    return AdapterConfig(rank, float(alpha), tuple(sorted(set(targets))), said.get("use_rslora", False))


def check_names(names: list[str], config: AdapterConfig) -> dict[str, tuple[str, str]]:
    """Module path → names of its A and its B. Raises BadAdapter for anything else in the file."""
    if len(names) > MAX_TENSORS:
        raise BadAdapter(f"the file has {len(names)} tensors, at most {MAX_TENSORS} are taken")
    sides: dict[str, dict[str, str]] = {}
    for name in names:
        match = _TENSOR.match(name)
        if match is None or match["module"] not in MODULES:
            raise BadAdapter(f"the file has a tensor {name[:120]!r}, which is no LoRA weight of an allowed module")
        if match["module"] not in config.target_modules:
            raise BadAdapter(f"the file changes {match['module']}, which its config does not name")
        sides.setdefault(match["path"], {})[match["side"]] = name
    for path, found in sides.items():
        if set(found) != {"A", "B"}:
            raise BadAdapter(f"{path} has lora_{''.join(found)} alone: A and B come in pairs")
    if not sides:
        raise BadAdapter("the file has no tensors")
    missing = set(config.target_modules) - {path.rsplit(".", 1)[-1] for path in sides}
    if missing:
        raise BadAdapter(f"the config names {min(missing)}, and the file has no weights for it")
    return {path: (found["A"], found["B"]) for path, found in sides.items()}


def check_weights(
    pairs: Mapping[str, tuple[str, str]],
    tensors: Mapping[str, Array],
    config: AdapterConfig,
    base_shapes: Mapping[str, tuple[int, ...]] | None,
) -> None:
    """A is (r, in), B is (out, r). `base_shapes` are the base model's weights by name, (out, in), where they are known.

    Raises BadAdapter for a shape, type, number or norm that must not be served, and where nothing would change.
    """
    changes = False
    for path, (name_a, name_b) in pairs.items():
        a, b = tensors[name_a], tensors[name_b]
        for name, tensor in ((name_a, a), (name_b, b)):
            if tensor.dtype not in (np.float32, np.float16):
                raise BadAdapter(f"{name} is of type {tensor.dtype}; float32, float16 and bfloat16 are taken")
            if tensor.ndim != 2 or 0 in tensor.shape:
                raise BadAdapter(f"{name} has the shape {tensor.shape}, and needs two dimensions")
        if a.shape[0] != config.rank or b.shape[1] != config.rank:
            raise BadAdapter(f"{path}: A is {a.shape} and B is {b.shape}, which does not fit the rank {config.rank}")
        if base_shapes is not None:
            base = base_shapes.get(f"{path}.weight")
            if base is None:
                raise BadAdapter(f"the base model has no {path}: the adapter would change nothing there")
            if base != (b.shape[0], a.shape[1]):
                raise BadAdapter(f"{path}: the adapter fits {(b.shape[0], a.shape[1])}, the base model has {base}")
        norms = []
        for name, tensor in ((name_a, a), (name_b, b)):
            if not np.isfinite(tensor).all():
                raise BadAdapter(f"{name} holds numbers that are not finite")
            norms.append(float(np.linalg.norm(tensor.astype(np.float64))))
        if norms[0] * norms[1] * config.scale > MAX_NORM:
            raise BadAdapter(
                f"{path}: the change is too large (‖A‖·‖B‖·scale = {norms[0] * norms[1] * config.scale:.3g}, at most "
                f"{MAX_NORM:g})"
            )
        changes = changes or norms[1] > 0
    if not changes:
        raise BadAdapter("every B is zero: the adapter would change nothing")
