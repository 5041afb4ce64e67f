"""The gate from a registered adapter to its report, on a real PostgreSQL."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from evaluation_world import GOOD, KEY, POOR, SECRET, SUITE, EvaluationWorld, evaluation, ref
from registry_world import digest, until
from starlette.responses import JSONResponse

from headrace_evaluation.core.planning import Comparison
from headrace_evaluation.store import Store
from headrace_kit.database import Database
from headrace_kit.migrate import upgrade
from headrace_schemas import PolicySpec


@pytest.fixture
async def world(database_url):
    async with evaluation(database_url) as world:
        yield world


async def test_a_better_candidate_is_reported_with_everything_its_report_is_bound_to(world):
    await world.everything(1)
    report = await world.report()
    assert report.verdict == "promote" and report.statistics.candidate == 1.0 and report.statistics.champion == 0.0
    assert (report.candidate_version, report.candidate_digest) == (1, digest(1))
    assert (report.champion_version, report.champion_digest) == (0, "")
    suite = (await world.http.get("/v1/suites/private")).json()
    assert report.suite_digest == suite["digest"] and suite["cases"] == 24
    assert report.gate_digest == PolicySpec.model_validate(world.policy().spec).gate_digest()
    assert report.statistics.candidate_passed == 24 and report.guards[0].passed
    assert (await world.told())["data"][0]["evaluation_id"] == report.evaluation_id


async def test_the_gateway_is_asked_by_version_with_the_evaluation_key_and_nothing_is_stored(world):
    await world.everything(1)
    await world.report()
    assert {model for model, _ in world.gateway.asked} == {"support@v1", "support@v0"}
    assert len(world.gateway.asked) == len(set(world.gateway.asked)) == 48
    assert world.gateway.keys == {f"Bearer {KEY}"}
    for body in world.gateway.bodies:
        assert body["store"] is False and body["temperature"] == 0 and body["max_tokens"] == 32
    assert len({body["seed"] for body in world.gateway.bodies}) == 1


async def test_a_long_suite_is_asked_no_further_than_the_evidence_needs(world):
    long = SUITE | {"cases": [case | {"id": f"{n}-{case['id']}"} for n in range(4) for case in SUITE["cases"]]}
    await world.everything(1, suite=long)
    report = await world.report()
    assert report.verdict == "promote" and report.statistics.cases == 24
    assert len(world.gateway.asked) == 48


async def test_a_worse_one_is_rejected_an_equal_one_is_held(world):
    world.gateway.answers |= {0: GOOD, 1: POOR, 2: GOOD}
    world.gateway.tokens |= {0: 10, 1: 10}
    await world.everything(1, 2)
    await world.report(2)
    verdicts = {r.candidate_version: r.verdict for r in world.reports()}
    assert verdicts == {1: "reject", 2: "hold"}


async def test_any_order_and_any_repetition_gives_one_report(database_url):
    rng = random.Random(5)
    async with evaluation(database_url) as world:
        events = [world.policy(), world.route(1), world.registered(1), world.observed(1)] * 3
        rng.shuffle(events)
        for event in events:
            await world.say(event)
            await asyncio.sleep(0.01)
        assert world.reports() == []
        await until(lambda: _waits(world, "evals push private"))
        await world.push()
        await world.report()
        await asyncio.sleep(0.3)
        assert len(world.reports()) == 1


async def test_a_stale_route_that_comes_late_changes_nothing(world):
    await world.push()
    old, new = world.route(1), world.route(2)
    await world.say(world.policy(), new, world.registered(1), world.registered(2), world.observed(1, 2), old)
    assert (await world.report()).candidate_version == 2
    await asyncio.sleep(0.2)
    assert len(world.reports()) == 1


async def test_nothing_is_asked_before_a_fresh_replica_has_the_candidate_ready(world):
    await world.push()
    stale = world.observed(1)
    world.clock.move(61)
    await world.say(world.policy(), world.route(1), world.registered(1), stale)
    await until(lambda: _waits(world, "no live replica"))
    assert world.gateway.asked == []
    await world.say(world.observed(1))
    assert (await world.report()).verdict == "promote"


async def _waits(world: EvaluationWorld, words: str) -> bool:
    return any(words in w["because"] for w in (await world.told())["waiting"])


async def test_the_champions_answers_are_asked_once_for_all_candidates(world):
    await world.everything(1)
    await world.report()
    await world.say(world.registered(2), world.route(1, 2), world.observed(1, 2))
    await world.report(2)
    assert sum(model == "support@v0" for model, _ in world.gateway.asked) == 24


async def test_a_guard_on_latency_asks_the_champion_anew(world):
    guards = [{"metric": "latency_s", "max_ratio": 1000}]
    await world.everything(1, guards=guards)
    await world.report()
    world.clock.move(1)
    await world.say(world.registered(2), world.route(1, 2), world.observed(1, 2))
    await world.report(2)
    assert sum(model == "support@v0" for model, _ in world.gateway.asked) == 48


async def test_when_the_champion_changes_meanwhile_the_candidate_is_judged_against_the_new_one(world):
    world.gateway.gate.clear()
    await world.everything(1)
    await until(lambda: world.gateway.asked)
    await world.say(world.registered(2), world.route(1, champion=2), world.observed(1, 2))
    await until(lambda: _champion_known(world, 2))
    world.gateway.gate.set()
    report = await world.report()
    assert (report.champion_version, report.verdict) == (2, "hold")
    await asyncio.sleep(0.2)
    assert len(world.reports()) == 1


async def _champion_known(world: EvaluationWorld, version: int) -> bool:
    async with world.service.unit_of_work() as work:
        return (await Store(work.session).routes())["support"].champion.version == version


async def test_another_gate_or_another_suite_is_judged_anew(world):
    await world.everything(1)
    first = await world.report()
    await world.say(world.policy(target={"alpha": 0.01}))
    second = await world.report(2)
    await world.push(SUITE | {"max_tokens": 33})
    third = await world.report(3)
    assert first.gate_digest != second.gate_digest == third.gate_digest
    assert first.suite_digest == second.suite_digest != third.suite_digest


# ---- trouble
@pytest.mark.parametrize(
    "trouble",
    [
        lambda w: w.gateway.ok(0, says=0),
        lambda w: w.gateway.ok(1, headers={"x-headrace-fallback": "true"}),
        lambda w: JSONResponse({"error": {"code": "not_ready", "message": SECRET}}, 503),
        lambda w: JSONResponse({"choices": []}, headers={"x-headrace-version": "1"}),
    ],
)
async def test_answers_of_another_version_and_failures_are_asked_again(world, trouble):
    left = [2]

    def once(version, prompt):
        if version == 1 and left[0]:
            left[0] -= 1
            return trouble(world)
        return None

    world.gateway.trouble = once
    await world.everything(1)
    await until(lambda: _reported_while_time_passes(world))
    assert world.reports()[0].verdict == "promote" and world.reports()[0].statistics.cases == 24
    assert left == [0]


async def _reported_while_time_passes(world: EvaluationWorld) -> bool:
    world.clock.move(1)
    await world.say(world.observed(1))
    return bool(world.reports())


async def test_answers_that_never_come_end_in_a_hold_that_says_why_and_nothing_of_the_suite(world):
    refusal = JSONResponse({"error": {"code": "context_length", "message": f"too long: {SECRET}"}}, 400)
    world.gateway.trouble = lambda version, prompt: refusal if version == 1 and "item 7?" in prompt else None
    await world.everything(1)
    await until(lambda: _reported_while_time_passes(world))
    report = world.reports()[0]
    assert report.verdict == "hold" and report.statistics.cases == 23
    assert report.because == "1 of 24 cases have no pair of answers: the gateway answered 400 context_length"


async def test_a_key_that_the_gateway_refuses_holds_nobody_and_shows_as_pending(world):
    world.gateway.trouble = lambda version, prompt: JSONResponse({"error": {"code": "invalid_api_key"}}, 401)
    await world.everything(1)

    async def put_back_more_often_than_failures_are_forgiven() -> bool:
        await _reported_while_time_passes(world)
        pending = (await world.told())["pending"]
        return any("401" in p["because"] and p["attempts"] > 4 for p in pending)

    await until(put_back_more_often_than_failures_are_forgiven)
    assert world.reports() == []
    world.gateway.trouble = lambda version, prompt: None
    await until(lambda: _reported_while_time_passes(world))
    assert world.reports()[0].verdict == "promote"


async def test_a_worker_that_is_killed_in_the_midst_is_replaced_and_only_the_missing_answers_are_asked(world):
    done = [0]

    def stop_after_ten(version, prompt):
        done[0] += 1
        if done[0] == 10:
            world.gateway.gate.clear()
        return None

    world.gateway.trouble = stop_after_ten
    await world.everything(1)
    await until(lambda: done[0] >= 10)
    await asyncio.sleep(0.3)
    await world.stop()
    world.gateway.gate.set()
    world.gateway.trouble = lambda version, prompt: None
    before = len(world.gateway.asked)
    world.clock.move(91)
    await world.start()
    await world.say(world.observed(1))
    assert (await world.report()).statistics.cases == 24
    assert len(world.gateway.asked) - before <= 48 - 10 + 8
    await asyncio.sleep(0.2)
    assert len(world.reports()) == 1


async def test_a_worker_whose_lease_ran_out_publishes_nothing(world):
    """Two workers, one asleep while it holds the job: exactly one report, by the one who holds it now."""
    world.gateway.gate.clear()
    await world.everything(1)
    await until(lambda: world.gateway.asked)
    async with world.service.unit_of_work() as work:
        job = await Store(work.session).claim(work.now + timedelta(seconds=91), timedelta(seconds=0))
    assert job is not None and job.claims == 2
    world.gateway.gate.set()
    await asyncio.sleep(0.3)
    world.clock.move(92)
    await world.say(world.observed(1))
    await world.report()
    await asyncio.sleep(0.2)
    assert len(world.reports()) == 1


async def test_two_workers_that_claim_at_once_do_not_get_the_same_job(database_url):
    await upgrade(database_url, "headrace_evaluation")
    database = Database(database_url, "evaluation")
    comparison = Comparison(
        policy="support",
        project="default",
        base_model="tiny",
        candidate=ref(1),
        champion=ref(0),
        suite="private",
        suite_digest=digest(5),
        gate_digest=digest(6),
    )
    now, lease = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=90)
    async with database.begin() as session:
        assert await Store(session).add_job(comparison, now)
        assert not await Store(session).add_job(comparison, now)
    async with database.begin() as one, database.begin() as other:
        found = [await Store(one).claim(now, lease), await Store(other).claim(now, lease)]
    assert [f is not None for f in found] == [True, False]
    async with database.begin() as session:
        assert await Store(session).claim(now + timedelta(seconds=89), lease) is None
        again = await Store(session).claim(now + timedelta(seconds=90), lease)
        assert again.claims == 2
        assert not await Store(session).change_job(found[0], state="done")
        assert await Store(session).change_job(again, state="done")
    await database.close()
