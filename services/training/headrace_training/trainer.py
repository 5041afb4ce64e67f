"""The trainer: one run's folder in, an adapter's file out. `python -m headrace_training.trainer RUN_DIR --models DIR`.

Its own process, so that memory and crashes of a run are not the service's, and so that the worker that lost its lease
can end it. It talks to nobody: no database, no broker, no object store. Exit status 0 means that result.json says how
the run ended, whichever way; anything else is a crash, and the run may be tried again.
"""

import argparse
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from headrace_training.core.adapter import adapter_config
from headrace_training.core.dataset import ExitReason, RunManifest, RunResult, Sample
from headrace_training.core.faults import Cancelled, Diverged, RunFault
from headrace_training.core.progress import summary
from headrace_training.rundir import ADAPTER_FILE, append_line, read_run, write_atomically


class Stop:
    """Whether the trainer should end: SIGTERM came, or the process that started it is gone."""

    def __init__(self) -> None:
        self.parent, self.asked = os.getppid(), False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    def check(self) -> None:
        """Raise Cancelled when it is time."""
        if self.asked:
            raise Cancelled("the trainer was told to stop")
        if os.getppid() != self.parent:
            raise Cancelled("the worker that started the trainer is gone")


def train(folder: Path, models: Path, stop: Stop, manifest: RunManifest, samples: list[Sample]) -> RunResult:
    """Learn, and write the adapter. Raises RunFault where that cannot be."""
    import torch

    from headrace_training.learner import Learner
    from headrace_training.lora import adapter_bytes, base_folder, load_base, with_adapter
    from headrace_training.objectives.registry import objective

    begun = time.perf_counter()
    torch.manual_seed(manifest.seed)
    recipe = manifest.recipe
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    base, tokenizer = load_base(base_folder(models, manifest.base_model))
    parent = folder / "parent" / ADAPTER_FILE if manifest.parent else None
    model = with_adapter(base, recipe.lora, manifest.base_model, parent).to(device)
    learner = Learner(model, tokenizer, objective(recipe), recipe)
    ready = time.perf_counter()
    rows = []
    for report in learner.run(samples, manifest.seed):
        rows.append(report.row())
        append_line(folder / "progress.jsonl", rows[-1])
        stop.check()
    if not rows:
        raise RunFault("none of the samples teaches anything under this recipe")
    if not all(bool(torch.isfinite(p).all()) for p in learner.parameters):
        raise Diverged("the adapter holds numbers that are not finite")
    data = adapter_bytes(model, adapter_config(recipe.lora, manifest.base_model))
    write_atomically(folder / "adapter" / ADAPTER_FILE, data)
    done = time.perf_counter()
    return RunResult(
        run_id=manifest.run_id,
        fencing_token=manifest.fencing_token,
        exit_reason=ExitReason.COMPLETED,
        adapter_sha256=hashlib.sha256(data).hexdigest(),
        adapter_bytes=len(data),
        steps=len(rows),
        metrics={**summary(rows), "seconds_loading": ready - begun, "seconds_training": done - ready},
    )


def out_of_memory(fault: BaseException) -> bool:
    """Whether a RuntimeError is torch's way to say that memory ran out."""
    return isinstance(fault, MemoryError) or any(
        words in str(fault) for words in ("out of memory", "can't allocate memory", "not enough memory")
    )


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="headrace_training.trainer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    asked = parser.parse_args(arguments)
    stop = Stop()
    manifest, samples = read_run(asked.folder)
    # What a killed trainer left would read as this one's.
    (asked.folder / "progress.jsonl").unlink(missing_ok=True)
    (asked.folder / "result.json").unlink(missing_ok=True)

    def ended(how: ExitReason, fault: BaseException) -> RunResult:
        return RunResult(
            run_id=manifest.run_id, fencing_token=manifest.fencing_token, exit_reason=how, reason=str(fault)[:500]
        )

    try:
        result = train(asked.folder, asked.models, stop, manifest, samples)
    except Diverged as fault:
        result = ended(ExitReason.DIVERGED, fault)
    except Cancelled as fault:
        result = ended(ExitReason.CANCELLED, fault)
    except RunFault as fault:
        result = ended(ExitReason.FAILED, fault)
    except (MemoryError, RuntimeError) as fault:
        if not out_of_memory(fault):
            raise
        result = ended(ExitReason.OOM, fault)
    write_atomically(asked.folder / "result.json", result.model_dump_json(indent=1).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
