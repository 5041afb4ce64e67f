"""Workers that die, that are replaced, and that come back."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, update

from headrace_kit.errors import Fenced
from headrace_schemas.base import VersionRef
from headrace_training.core.dataset import ExitReason, RunResult
from headrace_training.core.run import ATTEMPTS
from headrace_training.rundir import read_run, write_atomically
from headrace_training.settings import TrainingSettings
from headrace_training.store import Store
from headrace_training.tables import FENCING, RUN
from headrace_training.worker import Worker
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
            run_id=manifest.run_id,
            fencing_token=manifest.fencing_token,
            exit_reason=ExitReason.DIVERGED,
            reason="step 3 is nan",
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


async def take_away(service):
    """What the queue does when a lease has run out: somebody else gets the run, with a larger token."""
    async with service.unit_of_work() as work:
        until = func.now() + timedelta(hours=1)
        await work.session.execute(
            update(RUN).values(fencing_token=FENCING.next_value(), owner="another", lease_until=until)
        )


async def test_a_worker_that_lost_its_lease_ends_its_trainer_and_publishes_nothing(world):
    trainer = Endless()
    async with running(world.service(trainer)) as service:
        await due(world)
        await asyncio.wait_for(trainer.started.wait(), 10)
        await take_away(service)
        await world.until(lambda: trainer.cancelled)
        (run,) = await world.runs(service)
        assert run.owner == "another"
        assert world.checkpoints() == []


async def test_each_write_of_an_old_claim_is_refused(world):
    trainer = Endless()
    async with running(
        world.service(trainer, TrainingSettings(work_dir=world.settings.work_dir, lease_s=60.0))
    ) as service:
        await due(world)
        await asyncio.wait_for(trainer.started.wait(), 10)
        await take_away(service)
        (now,) = await world.runs(service)
        old = replace(now, fencing_token=now.fencing_token - 1)
        for write in (
            lambda store: store.renew(old, timedelta(seconds=1), None),
            lambda store: store.release(old, counts=False),
            lambda store: store.freeze(old, ("0" * 64, "key"), [], ""),
            lambda store: store.finish(old, ExitReason.COMPLETED, now.created_at),
        ):
            with pytest.raises(Fenced):
                async with service.unit_of_work() as work:
                    await write(Store(work.session))
        assert await world.runs(service) == [now]


async def test_a_run_whose_worker_died_is_taken_up_with_the_same_dataset_and_ends_in_one_checkpoint(world):
    idle = TrainingSettings(work_dir=world.settings.work_dir, workers=0, look_every_s=0.02)
    async with running(world.service(settings=idle)) as service:
        await due(world)
        await world.until(lambda: world.runs(service))
        # A worker gets as far as training and is heard of no more, as after kill -9.
        async with service.unit_of_work() as work:
            claimed = await Store(work.session).claim("dead", work.now, timedelta(seconds=0.5))
        dead = Worker("dead", service, world.objects, Endless(), idle)
        before, _, _ = await dead.dataset(claimed)
        await world.send(trajectory(1, revision=2, reward=0.0))
        async with running(world.service()):
            saved = (await world.until(world.checkpoints))[0]
        (after,) = await world.runs(service)
        assert after.state == ExitReason.COMPLETED
        assert after.fencing_token == saved.fencing_token > before.fencing_token
        assert (after.attempts, saved.manifest_digest) == (2, before.manifest_digest)
        with pytest.raises(Fenced):
            await dead.renew(before, None)
    assert len(world.checkpoints()) == 1


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
    gone = VersionRef(
        version=4, digest="4" * 64, object_key="adapters/gone", size_bytes=1, engine_model="support@v4-444444444444"
    )
    async with running(world.service()) as service:
        await world.send(policy(events=1), route(champion=gone), trajectory(0))
        (run,) = await world.until(lambda: failed(world, service))
        assert "adapters/gone" in run.reason
