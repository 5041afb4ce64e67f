"""Workers that die, that are replaced, and that come back."""

import asyncio
from dataclasses import replace

import pytest

from headrace_kit.errors import Fenced
from headrace_training.core.dataset import ExitReason, RunResult
from headrace_training.core.run import ATTEMPTS
from headrace_training.rundir import read_run, write_atomically
from headrace_training.settings import TrainingSettings
from headrace_training.store import Store
from headrace_training.testing import FakeTrainer
from tests.integration.training_world import World, policy, route, running, trajectory


class Endless:
    """A trainer that never ends by itself."""

    def __init__(self) -> None:
        self.started, self.cancelled = asyncio.Event(), False

    async def run(self, folder):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class Crashing:
    def __init__(self) -> None:
        self.tries = 0

    async def run(self, folder):
        self.tries += 1
        return -9


class Diverging:
    async def run(self, folder):
        manifest, _ = read_run(folder)
        result = RunResult(
            run_id=manifest.run_id, fencing_token=manifest.fencing_token, exit_reason=ExitReason.DIVERGED, reason="step 3 is nan"
        )
        write_atomically(folder / "result.json", result.model_dump_json().encode())
        return 0


@pytest.fixture
async def world(database_url, tmp_path):
    world = World(database_url, tmp_path / "work", lease_s=0.8)
    await world.prepare()
    return world


async def due(world):
    await world.send(policy(events=2), route(), trajectory(0), trajectory(1))


async def take_away(world, service):
    """What the queue does when a lease has run out: somebody else gets the run, with a larger token."""
    async with service.unit_of_work() as work:
        (run,) = await Store(work.session).runs(None, 1)
        from sqlalchemy import update

        from headrace_training.tables import FENCING, RUN

        await work.session.execute(update(RUN).values(fencing_token=FENCING.next_value(), owner="another"))
        return run


async def test_a_worker_that_lost_its_lease_ends_its_trainer_and_publishes_nothing(world):
    trainer = Endless()
    async with running(world.service(trainer)) as service:
        await due(world)
        await asyncio.wait_for(trainer.started.wait(), 10)
        await take_away(world, service)
        await world.until(lambda: trainer.cancelled)
        (run,) = await world.runs(service)
        assert run.owner == "another"
        assert world.checkpoints() == []


async def test_each_write_of_an_old_claim_is_refused(world):
    trainer = Endless()
    async with running(world.service(trainer, TrainingSettings(work_dir=world.settings.work_dir, lease_s=60.0))) as service:
        await due(world)
        await asyncio.wait_for(trainer.started.wait(), 10)
        await take_away(world, service)
        (now,) = await world.runs(service)
        old = replace(now, fencing_token=now.fencing_token - 1)
        for write in (
            lambda store: store.renew(old, world_lease(), None),
            lambda store: store.release(old, counts=False),
            lambda store: store.freeze(old, ("0" * 64, "key"), [], ""),
            lambda store: store.finish(old, ExitReason.COMPLETED, now.created_at),
        ):
            with pytest.raises(Fenced):
                async with service.unit_of_work() as work:
                    await write(Store(work.session))
        assert await world.runs(service) == [now]


def world_lease():
    from datetime import timedelta

    return timedelta(seconds=1)


async def test_a_run_whose_worker_died_is_taken_up_with_the_same_dataset_and_ends_in_one_checkpoint(world):
    stuck = world.service(Endless())
    await stuck.start()
    await due(world)
    await world.until(lambda: any(k.startswith("manifests/") for k in world.objects.objects))
    for task in stuck._running.values():  # as kill -9 does: nothing is given back
        if "worker" in task.get_name():
            worker = task
    async with running(world.service(FakeTrainer(), TrainingSettings(work_dir=world.settings.work_dir, workers=0))) as other:
        (before,) = await world.until(lambda: settled(world, other))
        async with other.unit_of_work() as work:
            from sqlalchemy import func, text, update

            from headrace_training.tables import RUN

            # The dead worker's last renewal was long ago, and it will make no other.
            await work.session.execute(update(RUN).values(owner="dead", fencing_token=before.fencing_token + 0))
            await work.session.execute(text("UPDATE run SET lease_until = now() - interval '1 minute'"))
        async with running(world.service()):
            saved = (await world.until(world.checkpoints))[0]
        (after,) = await world.runs(other)
        assert after.state == ExitReason.COMPLETED
        assert after.fencing_token > before.fencing_token
        assert (after.attempts, saved.manifest_digest) == (2, before.manifest_digest)
    await stuck.stop()
    assert worker.done()
    assert len(world.checkpoints()) == 1


async def settled(world, service):
    runs = await world.runs(service)
    return runs if runs and runs[0].manifest_key else []


async def test_a_worker_that_is_stopped_gives_its_run_back_at_once(world):
    trainer = Endless()
    patient = TrainingSettings(work_dir=world.settings.work_dir, lease_s=60.0, look_every_s=0.02)
    first = world.service(trainer, patient)
    await first.start()
    await due(world)
    await asyncio.wait_for(trainer.started.wait(), 10)
    await first.stop()
    assert trainer.cancelled
    async with running(world.service()) as second:
        await world.until(world.checkpoints, within=10)
        (run,) = await world.runs(second)
        assert run.attempts == 1


async def test_a_trainer_that_keeps_crashing_is_given_up(world):
    trainer = Crashing()
    async with running(world.service(trainer)) as service:
        await due(world)
        await world.until(lambda: failed(world, service))
        (run,) = await world.runs(service)
        assert trainer.tries == run.attempts == ATTEMPTS
        assert "without a result" in run.reason


async def failed(world, service):
    return [r for r in await world.runs(service) if r.state == ExitReason.FAILED]


async def test_a_run_that_diverged_publishes_nothing_and_its_samples_do_not_start_the_next(world):
    async with running(world.service(Diverging())) as service:
        await due(world)
        await world.until(lambda: ended(world, service))
        await asyncio.sleep(0.3)
        (run,) = await world.runs(service)
        assert (run.state, run.reason) == ("diverged", "step 3 is nan")
        assert world.checkpoints() == []


async def ended(world, service):
    return [r for r in await world.runs(service) if r.ended_at]


async def test_a_parent_that_is_gone_ends_the_run_in_a_sentence(world):
    from headrace_schemas.base import VersionRef

    gone = VersionRef(version=4, digest="4" * 64, object_key="adapters/gone", size_bytes=1, engine_model="support@v4-444444444444")
    async with running(world.service()) as service:
        await world.send(policy(events=1), route(champion=gone), trajectory(0))
        (run,) = await world.until(lambda: failed(world, service))
        assert "adapters/gone" in run.reason
