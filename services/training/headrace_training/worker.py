"""A worker: claims a run, freezes its dataset, has it trained, and publishes what came of it.

It holds the run by a lease that it renews; each of its writes carries the token of its claim. A worker that was
replaced ends its trainer and writes nothing; a worker that dies is replaced when its lease has run out.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import stamina
import structlog

from headrace_kit.errors import Fenced, Rejected, Retryable
from headrace_kit.objects import Objects
from headrace_kit.service import Service
from headrace_training import checkpoint, datasets
from headrace_training.core.dataset import DatasetManifest, ExitReason, RunResult, Sample
from headrace_training.core.faults import RunFault
from headrace_training.core.run import RUNNING, Run
from headrace_training.core.selection import selected
from headrace_training.process import TrainerProcess
from headrace_training.recipes import recipe
from headrace_training.rundir import ADAPTER_FILE, digest_of
from headrace_training.settings import TrainingSettings
from headrace_training.store import Store
from headrace_training.telemetry import LEASES_LOST, RUN_SECONDS, RUNS

T = TypeVar("T")
log = structlog.get_logger()


class Worker:
    """One run at a time. `name` is unique among the workers of all processes."""

    def __init__(
        self, name: str, service: Service, objects: Objects, trainer: TrainerProcess, settings: TrainingSettings
    ) -> None:
        self.name, self.service, self.objects, self.trainer, self.settings = name, service, objects, trainer, settings
        self.lease = timedelta(seconds=settings.lease_s)

    async def run(self) -> None:
        """Until cancelled; outages are waited out."""
        while True:
            try:
                worked = await self.take_one()
            except Retryable as error:
                log.warning("worker waits", error=str(error))
                worked = False
            if not worked:
                await asyncio.sleep(self.settings.look_every_s)

    async def take_one(self) -> bool:
        """Claim a run and see it through; False where none waits."""
        async with self.service.unit_of_work() as work:
            run = await Store(work.session).claim(self.name, work.now, self.lease)
        if run is None:
            return False
        if run.state != RUNNING:
            RUNS.labels(run.policy, run.state).inc()
            log.warning("run given up", run=run.run_id, reason=run.reason)
            return True
        folder = self.settings.work_dir / f"{run.run_id}-{run.fencing_token}"
        begun = time.monotonic()
        try:
            await self.hold(run, folder, asyncio.create_task(self.see_through(run, folder)))
        except Fenced as lost:
            LEASES_LOST.inc()
            log.warning("lease lost", run=run.run_id, reason=str(lost))
        except (Retryable, asyncio.CancelledError) as why:
            await self.give_back(run)
            if isinstance(why, asyncio.CancelledError):
                raise
            log.warning("run given back", run=run.run_id, reason=str(why))
            return False
        finally:
            self.clear(run)
        RUN_SECONDS.labels(run.policy).observe(time.monotonic() - begun)
        return True

    def clear(self, run: Run) -> None:
        """Remove the run's folder, and those that killed workers left of it: users' words are in them."""
        for folder in self.settings.work_dir.glob(f"{run.run_id}-*"):
            if int(folder.name.rpartition("-")[2]) <= run.fencing_token:
                shutil.rmtree(folder, ignore_errors=True)

    async def hold(self, run: Run, folder: Path, task: asyncio.Task[None]) -> None:
        """Renew the lease until the task is done. The task, and its trainer, end before this returns or raises."""
        safe_until = time.monotonic() + self.settings.lease_s
        try:
            while not (await asyncio.wait({task}, timeout=self.settings.lease_s / 4))[0]:
                try:
                    await self.renew(run, last_line(folder / "progress.jsonl"))
                    safe_until = time.monotonic() + self.settings.lease_s
                except Fenced:
                    # The task's own last write ends the lease too.
                    if not (await asyncio.wait({task}, timeout=0.5))[0]:
                        raise
                except Retryable as error:
                    if time.monotonic() > safe_until:
                        raise Fenced(f"the lease could not be renewed in time: {error}") from error
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def renew(self, run: Run, progress: dict[str, Any] | None) -> None:
        async with self.service.unit_of_work() as work:
            await Store(work.session).renew(run, self.lease, progress)

    async def give_back(self, run: Run, *, counts: bool = False) -> None:
        """For the next worker, at once; where the database is away, when the lease has run out."""
        try:
            async with self.service.unit_of_work() as work:
                await Store(work.session).release(run, counts=counts)
        except (Retryable, Fenced) as error:
            log.warning("run not given back", run=run.run_id, error=str(error))

    async def see_through(self, run: Run, folder: Path) -> None:
        """From the claim to the row that says how it ended."""
        begun = time.monotonic()
        try:
            frozen, manifest, samples = await self.dataset(run)
            await datasets.lay_out(folder, frozen, manifest, samples, self.objects)
        except (RunFault, Rejected) as fault:
            reason = str(fault)
            await patiently(lambda: self.end(run, ExitReason.FAILED, reason))
            return
        laid_out = time.monotonic()
        log.info("run starts", run=run.run_id, policy=run.policy, samples=len(samples), token=run.fencing_token)
        status = await self.trainer.run(folder)
        trained = time.monotonic()
        result = result_in(folder) if status == 0 else None
        if result is None or result.exit_reason is ExitReason.CANCELLED:
            # Told to stop is no end either: whoever ends a service may tell its children first.
            log.error("trainer ended", run=run.run_id, status=status, said=tail(folder / "trainer.log"))
            await self.give_back(run, counts=True)
            return
        if result.exit_reason is not ExitReason.COMPLETED:
            await patiently(lambda: self.end(run, result.exit_reason, result.reason or ""))
            return
        metrics = result.metrics | facts(samples)
        metrics |= {"seconds_dataset": laid_out - begun, "seconds_trainer": trained - laid_out}
        data = (folder / "adapter" / ADAPTER_FILE).read_bytes()
        if digest_of(data) != result.adapter_sha256:
            await patiently(lambda: self.end(run, ExitReason.FAILED, "the adapter's file is not the one of the result"))
            return
        key = await patiently(lambda: checkpoint.upload(self.objects, frozen, manifest, result, data))
        await patiently(lambda: self.complete(frozen, manifest, result, key, metrics))

    async def dataset(self, run: Run) -> tuple[Run, DatasetManifest, list[Sample]]:
        """The run's dataset: the one that an earlier attempt froze, else frozen now. And the run that knows of it."""
        if run.manifest_key is not None and run.manifest_digest is not None:
            manifest, samples = await datasets.fetch(self.objects, run.manifest_key, run.manifest_digest)
            return run, manifest, samples
        async with self.service.unit_of_work() as work:
            kept = await Store(work.session).choice(run)
        samples = selected([(sample, uses) for sample, uses, _ in kept], recipe(run.recipe), run.parent_version)
        manifest = datasets.manifest_of(run, samples)
        key = await datasets.keep(self.objects, manifest, samples)
        digest = kept[0][2] if kept else ""
        async with self.service.unit_of_work() as work:
            await Store(work.session).freeze(run, (manifest.digest, key), samples, digest)
        frozen = replace(
            run, manifest_digest=manifest.digest, manifest_key=key, samples=len(samples), spec_digest=digest
        )
        return frozen, manifest, samples

    async def complete(
        self, run: Run, manifest: DatasetManifest, result: RunResult, key: str, metrics: dict[str, float]
    ) -> None:
        """Row and fact in one transaction, under the token: however often it is tried, the fact is published once."""
        async with self.service.unit_of_work() as work:
            event = checkpoint.saved(run, manifest, result, key, metrics, work.now)
            await Store(work.session).finish(
                run,
                ExitReason.COMPLETED,
                work.now,
                digest=event.digest,
                object_key=key,
                size_bytes=event.size_bytes,
                metrics=event.metrics,
            )
            work.publish(event)
        RUNS.labels(run.policy, ExitReason.COMPLETED).inc()
        log.info("run completed", run=run.run_id, policy=run.policy, digest=event.digest[:12], samples=event.samples)

    async def end(self, run: Run, how: ExitReason, reason: str) -> None:
        """A run without a checkpoint."""
        async with self.service.unit_of_work() as work:
            await Store(work.session).finish(run, how, work.now, reason=reason)
        RUNS.labels(run.policy, how).inc()
        log.warning("run ended without a checkpoint", run=run.run_id, how=how, reason=reason)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Try through an outage of two minutes: what was trained is not thrown away for it. The lease is watched beside."""
    async for attempt in stamina.retry_context(on=Retryable, attempts=None, timeout=120.0, wait_max=5.0):
        with attempt:
            return await call()
    raise AssertionError("stamina yields or raises")


def facts(samples: list[Sample]) -> dict[str, float]:
    """What the dataset was made of."""
    rewards = [s.reward for s in samples if s.reward is not None]
    return {
        "rewarded": float(len(rewards)),
        "reward_mean": sum(rewards) / len(rewards) if rewards else 0.0,
        "corrections": float(sum(s.demonstration is not None for s in samples)),
        "stale": float(sum(s.staleness > 0 for s in samples)),
    }


def result_in(folder: Path) -> RunResult | None:
    """How the trainer says it ended."""
    path = folder / "result.json"
    return RunResult.model_validate_json(path.read_bytes()) if path.is_file() else None


def last_line(path: Path) -> dict[str, Any] | None:
    """The newest whole line of a file of JSON lines."""
    if not path.is_file():
        return None
    whole = path.read_bytes().split(b"\n")[:-1]
    return dict(json.loads(whole[-1])) if whole else None


def tail(path: Path) -> str:
    """The end of a log, for the line that says why."""
    return path.read_bytes()[-2000:].decode(errors="replace") if path.is_file() else ""
