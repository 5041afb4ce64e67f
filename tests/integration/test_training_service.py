"""From trajectories to a checkpoint, on a real PostgreSQL."""

import asyncio
import json

import httpx2
import pytest

from headrace_schemas.base import VersionRef
from headrace_training.core.dataset import DatasetManifest, ExitReason, Sample
from headrace_training.rundir import digest_of
from tests.integration.training_world import World, policy, route, running, trajectory


@pytest.fixture
async def world(database_url, tmp_path):
    world = World(database_url, tmp_path / "work")
    await world.prepare()
    return world


async def test_enough_events_become_one_checkpoint_with_its_dataset_beside_it(world, tmp_path):
    async with running(world.service()) as service:
        await world.send(policy(events=4), route(), *(trajectory(n) for n in range(3)))
        await world.until(lambda: world.broker.committed)
        await asyncio.sleep(0.3)
        assert await world.runs(service) == []
        await world.send(trajectory(3, correction="So it is."))
        saved = (await world.until(world.checkpoints))[0]
        (run,) = await world.runs(service)
        assert run.state == ExitReason.COMPLETED
        assert (saved.run_id, saved.samples, saved.parent_version, saved.recipe) == (run.run_id, 4, 0, "default")
        assert saved.digest == digest_of(world.objects.objects[saved.object_key]) == run.digest
        assert saved.object_key == f"adapters/support/{saved.digest}/adapter_model.safetensors"
        manifest = DatasetManifest.model_validate_json(world.objects.objects[saved.manifest_key])
        assert manifest.digest == saved.manifest_digest == run.manifest_digest
        lines = world.objects.objects[saved.manifest_key.removesuffix(".json") + ".samples.jsonl"].decode().splitlines()
        samples = [Sample.model_validate_json(line) for line in lines]
        assert {s.demonstration for s in samples} == {None, "So it is."}
        folder = f"adapters/support/{saved.digest}/"
        assert json.loads(world.objects.objects[folder + "lineage.json"])["run_id"] == run.run_id
        assert json.loads(world.objects.objects[folder + "adapter_config.json"])["peft_type"] == "LORA"
        assert saved.metrics["corrections"] == 1.0
        assert list((tmp_path / "work").iterdir()) == []


async def test_duplicates_and_revisions_out_of_order_leave_the_newest_revision(world):
    async with running(world.service()) as service:
        await world.send(policy(events=2), route())
        await world.send(trajectory(0, revision=3, reward=1.0), trajectory(0, revision=1, reward=0.0))
        await world.send(trajectory(0, revision=3, reward=1.0), trajectory(0, revision=2, reward=0.5))
        await asyncio.sleep(0.5)
        assert (await world.standing(service)).new_samples == 1
        await world.send(trajectory(1))
        await world.until(world.checkpoints)
        by_id = {s.sample_id: s for s in world.trainer.runs[0][1]}
        assert (by_id["chatcmpl-0"].revision, by_id["chatcmpl-0"].reward) == (3, 1.0)


async def test_retracted_feedback_is_not_learned_from(world):
    async with running(world.service()) as service:
        await world.send(policy(events=2), route(), trajectory(0), trajectory(0, revision=2, reward=None))
        await world.send(trajectory(1), trajectory(2))
        await world.until(world.checkpoints)
        assert {s.sample_id for s in world.trainer.runs[0][1]} == {"chatcmpl-1", "chatcmpl-2"}
        assert (await world.standing(service)).new_samples == 0


async def test_no_run_starts_while_a_candidate_waits_and_the_next_one_continues_the_champion(world):
    async with running(world.service()) as service:
        await world.send(policy(events=2), route(), trajectory(0), trajectory(1))
        first = (await world.until(world.checkpoints))[0]
        ref = VersionRef(
            version=1,
            digest=first.digest,
            object_key=first.object_key,
            size_bytes=first.size_bytes,
            engine_model=f"support@v1-{first.digest[:12]}",
        )
        await world.send(*(trajectory(n) for n in range(2, 6)))
        await asyncio.sleep(0.4)
        assert len(await world.runs(service)) == 1
        await world.send(route(epoch=2, load=(ref,)))
        await asyncio.sleep(0.4)
        assert len(await world.runs(service)) == 1
        await world.send(route(epoch=3, champion=ref))
        second = (await world.until(lambda: len(world.checkpoints()) == 2 and world.checkpoints()))[1]
        assert (second.parent_version, second.parent_digest) == (1, first.digest)
        assert second.fencing_token > first.fencing_token
        manifest, samples = world.trainer.runs[1]
        assert manifest.parent.digest == first.digest
        assert {s.sample_id for s in samples} >= {f"chatcmpl-{n}" for n in range(2, 6)}
        assert "chatcmpl-1" in {s.sample_id for s in samples}, "a liked answer is replayed"
        assert "chatcmpl-0" not in {s.sample_id for s in samples}, "a disliked one is not"


async def test_an_older_route_or_policy_changes_nothing(world):
    async with running(world.service()):
        await world.send(policy(events=99, revision=2), policy(events=1, revision=1), route())
        await world.send(trajectory(0))
        await asyncio.sleep(0.5)
        assert world.checkpoints() == []


async def test_a_record_that_is_no_trajectory_is_a_dead_letter_and_nothing_else_suffers(world):
    async with running(world.service()):
        await world.send(policy(events=1), route(), trajectory(0).model_copy(update={"trajectory_id": "a\x00b"}))
        await world.send(trajectory(1))
        await world.until(world.checkpoints)
        assert await world.until(world.dead_letters) == ["nul_character"]


async def test_runs_are_shown_to_who_has_the_token(world):
    async with running(world.service()) as service:
        await world.send(policy(events=2), route(), trajectory(0), trajectory(1))
        saved = (await world.until(world.checkpoints))[0]
        transport = httpx2.ASGITransport(app=service.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://training") as client:
            assert (await client.get("/v1/runs")).status_code == 401
            client.headers["authorization"] = "Bearer 0123456789abcdef"
            body = (await client.get("/v1/runs")).json()
            assert body["runs"][0]["run_id"] == saved.run_id
            assert body["runs"][0]["state"] == "completed"
            assert body["policies"][0]["because"] == "the newest checkpoint is not registered yet"
            one = (await client.get(f"/v1/runs/{saved.run_id}")).json()
            assert sorted(one["trajectories"]) == ["chatcmpl-0", "chatcmpl-1"]
            assert (await client.get("/v1/runs/none")).status_code == 404
            bad = await client.get("/v1/runs?limit=many")
            assert (bad.status_code, bad.json()["error"]["param"]) == (400, "limit")
            assert (await client.get("/v1/runs?policy=other")).json() == {"runs": [], "policies": []}
            assert (await client.get("/health/ready")).status_code == 200
