"""The model with its adapter: made from a base model and a parent, written as one safetensors file.

The adapter's config travels inside the file's metadata (`headrace.adapter_config`), so that one digest binds weights
and config, and the serving agent never has to trust a JSON file beside it.
"""

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from headrace_training.core.adapter import CONFIG_KEY, adapter_config, canonical
from headrace_training.core.faults import BadParent, RunFault
from headrace_training.recipes import LoraShape


def base_folder(models: Path, base_model: str) -> Path:
    """Folder of a base model: `models/<name>`, or `models/<last part of the name>`."""
    for folder in (models / base_model, models / base_model.rsplit("/", 1)[-1]):
        if (folder / "config.json").is_file():
            return folder
    raise RunFault(f"base model {base_model!r} is not under {models}")


def load_base(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Base model and tokenizer in float32, the type that the CPU engine serves with."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def with_adapter(base: PreTrainedModel, shape: LoraShape, base_model: str, parent: Path | None) -> PeftModel:
    """The base model with a fresh adapter (which changes nothing yet), or with the parent's weights in it."""
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=shape.alpha,
        target_modules=list(shape.target_modules),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base, config)
    if parent is not None:
        set_parent(model, parent, adapter_config(shape, base_model))
    return model  # type: ignore[no-any-return, unused-ignore]


def set_parent(model: PeftModel, parent: Path, expected: dict[str, Any]) -> None:
    """Put the parent's weights into the adapter; BadParent where they do not fit it exactly."""
    try:
        with safe_open(parent, framework="pt") as file:
            said = json.loads((file.metadata() or {}).get(CONFIG_KEY, "null"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as fault:
        raise BadParent(f"the parent is not a safetensors file: {fault}") from fault
    if said != expected:
        raise BadParent(f"the parent was made with {said}, this run continues {expected}")
    own = {name: tensor.shape for name, tensor in get_peft_model_state_dict(model).items()}
    if own != {name: tensor.shape for name, tensor in weights.items()}:
        raise BadParent("the parent's tensors are not those of the adapter")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        raise BadParent("the parent holds numbers that are not finite")
    set_peft_model_state_dict(model, weights)


def adapter_bytes(model: PeftModel, config: dict[str, Any]) -> bytes:
    """The adapter as the bytes of a safetensors file; the same weights always give the same bytes.

    One key of metadata and no second: the library writes several in no fixed order.
    """
    weights = {
        name: tensor.detach().float().cpu().contiguous() for name, tensor in get_peft_model_state_dict(model).items()
    }
    return bytes(save(dict(sorted(weights.items())), metadata={CONFIG_KEY: canonical(config)}))
