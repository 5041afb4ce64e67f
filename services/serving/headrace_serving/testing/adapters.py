"""Adapter files that pass every check of the agent, and say what the fake engine answers."""

import json
from typing import Any

import numpy as np
from safetensors.numpy import save

from headrace_serving.core.adapter import CONFIG_KEY

ANSWER_KEY = "headrace.fake_answer"


def adapter_file(
    answer: str, *, base_model: str = "fake-base", rank: int = 4, alpha: float = 8.0, seed: int = 0,
    modules: tuple[str, ...] = ("q_proj", "v_proj"), width: int = 8, **config: Any,
) -> bytes:  # fmt: skip
    """A valid adapter file whose engine answers `answer`; `{prompt}` in it stands for the last user message."""
    random = np.random.default_rng(seed)
    tensors = {}
    for module in modules:
        path = f"base_model.model.model.layers.0.self_attn.{module}"
        tensors[f"{path}.lora_A.weight"] = random.normal(size=(rank, width)).astype(np.float32)
        tensors[f"{path}.lora_B.weight"] = random.normal(size=(width, rank)).astype(np.float32)
    said = {
        "base_model_name_or_path": base_model, "bias": "none", "lora_alpha": alpha, "peft_type": "LORA", "r": rank,
        "target_modules": sorted(modules), "task_type": "CAUSAL_LM", **config,
    }  # fmt: skip
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return _ordered(save(tensors, metadata={CONFIG_KEY: canonical, ANSWER_KEY: answer}))


def _ordered(file: bytes) -> bytes:
    """The same file with its header's keys in order: safetensors writes metadata in any order, and digests differ."""
    length = int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + file[8 + length :]
