"""What an adapter file says of itself."""

import json
from typing import Any

from headrace_training.recipes import LoraShape

CONFIG_KEY = "headrace.adapter_config"
"""Key in the file's metadata: the config travels inside the file, so that one digest binds weights and config."""


def adapter_config(shape: LoraShape, base_model: str) -> dict[str, Any]:
    """The allow-listed part of PEFT's config: what the serving agent reads, and all that it believes."""
    return {
        "base_model_name_or_path": base_model,
        "bias": "none",
        "lora_alpha": shape.alpha,
        "peft_type": "LORA",
        "r": shape.rank,
        "target_modules": sorted(shape.target_modules),
        "task_type": "CAUSAL_LM",
    }


def canonical(config: dict[str, Any]) -> str:
    """The config as it stands in the file."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))
