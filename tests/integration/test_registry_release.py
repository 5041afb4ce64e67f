"""From a checkpoint to the champion and back, on a real PostgreSQL."""

import asyncio

import pytest
from registry_world import SPEC, RegistryWorld, digest, registry, until

from headrace_schemas import AdapterRegistered, CheckpointSaved, EvaluationCompleted, RouteChanged


@pytest.fixture
async def world(database_url):
    async with registry(database_url) as world:
        await world.apply()
        yield world


async def promoted(world: RegistryWorld, number: int, champion: int = 0) -> None:
    await world.say(
        world.checkpoint(number, parent_version=champion, parent_digest=digest(champion) if champion else "")
    )
    await world.became(number, "registered")
    await world.say(world.observed(*range(1, number + 1)), world.report(number, "promote", champion=champion))
    await world.became(number, "champion")


async def test_a_checkpoint_becomes_the_champion_when_the_gate_says_so_and_every_replica_proved_it(world):
    await world.say(world.observed(replica="r1"), world.observed(replica="r2"))
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    [registered] = await until(lambda: world.published(AdapterRegistered))
    assert registered.adapter.version == 1 and registered.adapter.engine_model == f"support@v1-{digest(1)[:12]}"
    await until(lambda: [r.version for r in world.newest_route().load] == [1])

    await world.say(world.report(1, "promote"), world.observed(1, replica="r1"))
    waiting = await world.became(1, "evaluated")
    await world.settled()
    assert (await world.became(1, "evaluated"))["pending"]["by"] == "gate", waiting
    assert world.newest_route().champion.version == 0

    await world.say(world.observed(1, replica="r2"))
    told = await world.became(1, "champion")
    route = await until(lambda: (r := world.newest_route()).champion.version == 1 and r)
    assert route.previous.version == 0 and route.load == () and route.champion.digest == digest(1)
    assert told["promoted"]["by"] == "gate" and told["pending"] is None
    assert {p["replica"] for p in told["proofs"]} == {"r1", "r2"}


async def test_explain_tells_parent_data_reward_spec_run_report_and_who_promoted_it(world):
    await promoted(world, 1)
    await promoted(world, 2, champion=1)
    told = (await world.http.get("/v1/versions/support/champion")).json()
    assert told["version"] == 2
    assert [(p["version"], p["state"]) for p in told["parents"]] == [(1, "retired"), (0, "retired")]
    assert told["data"] == {"manifest_key": "manifests/2", "manifest_digest": digest(902), "samples": 32}
    assert told["reward_spec_digest"] == digest(801)
    assert told["run"]["run_id"] == "run-2" and told["run"]["metrics"] == {"loss": 0.5}
    assert told["reports"][0]["statistics"]["cases"] == 40
    actions = [a["action"] for a in told["audit"] if a["action"] != "promote-decided"]
    assert actions == ["promoted", "evaluated", "registered"]
    assert told["route"]["role"] == "champion"
    rows = (await world.http.get("/v1/policies/support/versions")).json()["data"]
    assert [(r["version"], r["state"]) for r in rows] == [(2, "champion"), (1, "retired"), (0, "retired")]
    assert rows[0]["candidate_score"] == 0.8 and rows[0]["ready_on"] == ["r1"]


async def test_the_same_checkpoint_twice_is_one_version(world):
    await world.say(world.checkpoint(1), world.checkpoint(1))
    await world.say(world.checkpoint(1, run_id="run-again"))
    await world.became(1, "registered")
    await world.settled()
    assert await world.state_of(2) is None
    assert len(world.published(AdapterRegistered)) == 1


async def test_a_stale_fencing_token_is_registered_as_rejected_with_its_reason(world):
    await world.say(world.checkpoint(5), world.checkpoint(3))
    told = await world.became(2, "rejected")
    assert "fencing token 3" in told["reason"]
    assert [r["version"] for r in (await world.route())["load"]] == [1]
    assert len(world.published(AdapterRegistered)) == 1


async def test_a_checkpoint_of_no_policy_goes_to_the_dead_letters_and_the_next_one_is_taken(world):
    await world.say(world.checkpoint(1, policy="nobody"), world.checkpoint(2))
    await world.became(1, "registered")
    await until(lambda: world.dead(CheckpointSaved))


@pytest.mark.parametrize(("verdict", "state"), [("hold", "evaluated"), ("reject", "rejected")])
async def test_what_is_held_or_rejected_is_not_loaded_any_longer_and_a_repetition_changes_nothing(
    world, verdict, state
):
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    report = world.report(1, verdict)
    await world.say(world.observed(1), report, report)
    told = await world.became(1, state)
    assert told["reason"] == f"the gate says {verdict}"
    assert (await world.route())["load"] == []
    await world.settled()
    assert len((await world.became(1, state))["reports"]) == 1
    assert (await world.route())["champion"]["version"] == 0


async def test_the_order_of_report_and_proof_does_not_matter(world):
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    await world.say(world.report(1, "promote"))
    await world.became(1, "evaluated")
    await world.say(world.observed(1))
    await world.became(1, "champion")


async def test_a_report_against_an_old_champion_or_an_old_gate_promotes_nobody(world):
    await promoted(world, 1)
    await world.say(world.checkpoint(2, parent_version=1, parent_digest=digest(1)), world.observed(1, 2))
    await world.became(2, "registered")
    await world.say(world.report(2, "promote", champion=0))
    await world.say(world.report(2, "promote", champion=1, gate_digest=digest(1), evaluation_id="other-gate"))
    await world.settled()
    assert await world.state_of(2) == "registered"
    await world.say(world.report(2, "promote", champion=1))
    await world.became(2, "champion")


async def test_a_report_about_a_version_that_does_not_exist_is_a_dead_letter(world):
    await world.say(world.report(7, "promote"))
    await until(lambda: world.dead(EvaluationCompleted))


async def test_a_version_that_failed_on_a_replica_is_rejected_with_the_probes_reason(world):
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    await world.say(world.observed(failed=(1,)))
    told = await world.became(1, "rejected")
    assert "a logprob is not finite" in told["reason"]
    assert told["proofs"][0]["state"] == "failed"
    await world.say(world.report(1, "promote"), world.observed(1))
    await world.settled()
    assert await world.state_of(1) == "rejected"


async def test_an_older_observation_does_not_replace_a_newer_one(world):
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    ready, newer = world.observed(1), world.observed()
    await world.say(newer, ready, world.report(1, "promote"))
    await world.became(1, "evaluated")
    await world.settled()
    assert await world.state_of(1) == "evaluated"


async def test_a_manual_policy_waits_for_a_person(world):
    manual = {"gate": SPEC["gate"] | {"promote": "manual"}}
    spec = (await world.apply(**manual)).json()["spec"]
    from headrace_schemas import PolicySpec

    gate = PolicySpec.model_validate(spec).gate_digest()
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    await world.say(world.observed(1), world.report(1, "promote", gate_digest=gate))
    await world.became(1, "evaluated")
    await world.settled()
    world.clock.move(3600)
    await asyncio.sleep(0.3)
    assert await world.state_of(1) == "evaluated"
    await world.say(world.observed(1))
    await world.settled()
    answer = await world.http.post(
        "/v1/policies/support/promote", json={"version": 1, "by": "ada", "reason": "looks good"}
    )
    assert answer.json()["status"] == "promoted", answer.text
    told = await world.became(1, "champion")
    assert told["promoted"]["by"] == "ada" and told["promoted"]["reason"] == "looks good"


async def test_a_candidate_whose_evaluation_never_comes_is_given_up(database_url):
    async with registry(database_url, deadline_s=600) as world:
        await world.apply()
        await world.say(world.checkpoint(1))
        await world.became(1, "registered")
        world.clock.move(599)
        await asyncio.sleep(0.2)
        assert await world.state_of(1) == "registered"
        world.clock.move(2)
        told = await world.became(1, "rejected")
        assert "no gate report within 10 min" in told["reason"]
        assert (await world.route())["load"] == []


async def test_a_restart_in_the_middle_loses_nothing(database_url):
    async with registry(database_url) as world:
        await world.apply()
        await world.say(world.checkpoint(1))
        await world.became(1, "registered")
        await world.stop()
        await world.say(world.observed(1), world.report(1, "promote"))
        await world.start()
        await world.became(1, "champion")
        await until(lambda: len(world.published(RouteChanged)) >= 3)
        assert sorted({r.epoch for r in world.published(RouteChanged)}) == [1, 2, 3]


# ---- rollback
async def test_a_rollback_is_an_alias_move_to_the_champion_before(world):
    await promoted(world, 1)
    await promoted(world, 2, champion=1)
    answer = await world.http.post("/v1/policies/support/rollback", json={"by": "ada", "reason": "it rambles"})
    assert answer.status_code == 200 and answer.json()["status"] == "rolled_back"
    assert answer.json()["version"] == 1
    told = await world.became(2, "quarantined")
    assert told["reason"] == "rolled back to v1: it rambles"
    route = await world.route()
    assert route["champion"]["version"] == 1 and route["previous"]["version"] == 0
    again = await world.http.post("/v1/policies/support/rollback", json={"by": "ada", "reason": "so does that"})
    assert again.json()["version"] == 0
    third = await world.http.post("/v1/policies/support/rollback", json={"by": "ada", "reason": "and that"})
    assert third.status_code == 409 and third.json()["error"]["code"] == "nothing_to_roll_back_to"
    actions = [a["action"] for a in (await world.http.get("/v1/audit", params={"policy": "support"})).json()["data"]]
    assert actions.count("rolled-back") == 2


async def test_a_version_that_was_rolled_back_is_not_promoted_again_but_by_a_person_with_a_reason(world):
    await promoted(world, 1)
    await world.http.post("/v1/policies/support/rollback", json={"by": "ada", "reason": "bad"})
    await world.say(world.observed(1), world.report(1, "promote", evaluation_id="later"))
    await world.settled()
    assert await world.state_of(1) == "quarantined"
    refused = await world.http.post("/v1/policies/support/promote", json={"version": 1, "by": "ada"})
    assert refused.status_code == 409
    silent = await world.http.post("/v1/policies/support/promote", json={"version": 1, "by": "ada", "force": True})
    assert silent.status_code == 422 and silent.json()["error"]["param"] == "reason"
    forced = await world.http.post(
        "/v1/policies/support/promote", json={"version": 1, "by": "ada", "force": True, "reason": "was right after all"}
    )
    assert forced.json()["status"] == "promoted"
    assert (await world.http.get("/v1/audit")).json()["data"][0]["details"]["forced"] is True


async def test_a_rollback_to_a_version_that_is_not_loaded_loads_it_first(world):
    for number in (1, 2, 3):
        await promoted(world, number, champion=number - 1)
    await world.say(world.observed(2, 3))
    await world.settled()
    answer = await world.http.post("/v1/policies/support/rollback", json={"by": "ada", "reason": "older", "version": 1})
    assert answer.status_code == 202 and answer.json()["status"] == "preparing"
    assert [v["version"] for v in (await world.route())["load"]] == [1]
    assert (await world.route())["champion"]["version"] == 3
    await world.say(world.observed(1, 2, 3))
    await world.became(1, "champion")
    assert await world.state_of(3) == "quarantined"
    route = await world.route()
    assert route["previous"]["version"] == 0 and route["load"] == []


# ---- people against each other
async def test_promotion_needs_a_stored_report(world):
    await world.say(world.checkpoint(1), world.observed(1))
    await world.became(1, "registered")
    refused = await world.http.post("/v1/policies/support/promote", json={"version": 1, "by": "ada"})
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "no_gate_report"


async def test_a_forced_promotion_of_what_is_not_loaded_waits_for_proof(world):
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    await world.say(world.report(1, "hold"))
    await world.became(1, "evaluated")
    body = {"version": 1, "by": "ada", "force": True, "reason": "we need it"}
    answer = await world.http.post("/v1/policies/support/promote", json=body)
    assert answer.status_code == 202 and answer.json()["status"] == "preparing"
    assert (await world.route())["champion"]["version"] == 0
    await world.say(world.observed(1))
    assert (await world.became(1, "champion"))["promoted"]["by"] == "ada"


async def test_of_two_promoters_at_once_exactly_one_wins(world):
    await world.say(world.observed(1, 2), world.checkpoint(1), world.checkpoint(2))
    await world.became(2, "registered")
    await world.settled()
    epoch = (await world.http.get("/v1/policies/support/route")).headers["etag"]

    async def promote(number: int):
        return await world.http.post(
            "/v1/policies/support/promote",
            json={"version": number, "by": f"person {number}", "force": True, "reason": "mine"},
            headers={"If-Match": epoch},
        )

    answers = await asyncio.gather(*(promote(n) for n in (1, 2, 1, 2)))
    codes = sorted(a.status_code for a in answers)
    assert codes[0] == 200 and all(c in (409, 412) for c in codes[1:]), [a.text for a in answers]
    winner = (await world.route())["champion"]["version"]
    states = {await world.state_of(1), await world.state_of(2)}
    assert states == {"champion", "registered"} and await world.state_of(winner) == "champion"
    actions = [a["action"] for a in (await world.http.get("/v1/audit")).json()["data"]]
    assert actions.count("promoted") == 1
    await until(lambda: world.newest_route().champion.version == winner)
    assert len({r.epoch for r in world.published(RouteChanged)}) == len(world.published(RouteChanged))


async def test_two_promoters_without_if_match_cannot_both_move_the_same_epoch(world):
    await world.say(world.observed(1, 2), world.checkpoint(1), world.checkpoint(2))
    await world.became(2, "registered")
    await world.settled()
    from headrace_registry.core.promotion import Pending
    from headrace_registry.moves import Moves, RouteMovedError
    from headrace_registry.store import Store

    async with world.service.unit_of_work() as slow:
        moves = Moves(Store(slow.session), slow)
        place, version = await moves.place("support"), await moves.store.version("support", 1)
        fast = await world.http.post(
            "/v1/policies/support/promote", json={"version": 2, "by": "b", "force": True, "reason": "first"}
        )
        assert fast.status_code == 200
        with pytest.raises(RouteMovedError):
            await moves.finish(place, version, Pending("promote", "a", "second", forced=True, at=slow.now))
    assert await world.state_of(1) == "registered" and await world.state_of(2) == "champion"


async def test_an_if_match_that_is_no_longer_so_is_412_and_one_that_is_no_epoch_is_400(world):
    await promoted(world, 1)
    body = {"by": "ada", "reason": "x"}
    old = await world.http.post("/v1/policies/support/rollback", json=body, headers={"If-Match": '"1"'})
    assert old.status_code == 412 and old.json()["error"]["code"] == "precondition_failed"
    bad = await world.http.post("/v1/policies/support/rollback", json=body, headers={"If-Match": "yesterday"})
    assert bad.status_code == 400
    epoch = (await world.route())["epoch"]
    good = await world.http.post("/v1/policies/support/rollback", json=body, headers={"If-Match": f'"{epoch}"'})
    assert good.status_code == 200 and good.headers["etag"] == f'"{epoch + 1}"'
