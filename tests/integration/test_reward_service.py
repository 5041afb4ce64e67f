"""The reward service on a real PostgreSQL: the join in any order, revisions, and what waits."""

import asyncio
import random
from datetime import timedelta

import pytest

from feedback_parts import NOW, a_policy, an_episode, an_inference, client, platform, started, until
from headrace_kit.migrate import upgrade
from headrace_kit.records import Outgoing, decode, encode
from headrace_kit.testing import FakeClock, MemoryBroker, MemoryBus
from headrace_reward import sweeper
from headrace_reward.app import build
from headrace_reward.settings import RewardSettings
from headrace_schemas import FeedbackRecorded, TrajectoryScored, topic_of
from headrace_schemas.traffic import Source

SETTINGS = RewardSettings(sweep_every_s=0.2)


@pytest.fixture
async def broker():
    return MemoryBroker()


@pytest.fixture
async def database(database_url):
    await upgrade(database_url, "headrace_reward")
    return database_url


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
async def service(database, broker, clock):
    built = build(SETTINGS, platform(database), bus=MemoryBus(broker), clock=clock)
    async with started(built):
        yield built


async def send(broker, *events, repeat: int = 1):
    records = [encode(e, topic=topic_of(type(e)).name(), source="test", recorded_at=NOW) for e in events]
    for _ in range(repeat):
        await broker.append(records)


def scored(broker) -> list[TrajectoryScored]:
    return [decode(r, TrajectoryScored) for r in broker.all("headrace.trajectory-scored.v1")]


def newest(broker) -> dict[str, TrajectoryScored]:
    return {event.trajectory_id: event for event in sorted(scored(broker), key=lambda e: e.revision)}


_sequence = iter(range(1, 10**9))


def said(metric_name="accepted", value=True, *, revision=1, by="u_1", sequence=None, **given) -> FeedbackRecorded:
    number = sequence or next(_sequence)
    return FeedbackRecorded(
        occurred_at=NOW,
        recorded_at=NOW + timedelta(milliseconds=number),
        feedback_id=f"fb_{number}",
        revision=revision,
        sequence=number,
        metric_name=metric_name,
        value=value,
        source=Source(id=by),
        **given,
    )


async def quiet(broker, seconds=0.4):
    """Wait until nothing more is published."""
    count = -1
    while count != (count := len(scored(broker))):
        await asyncio.sleep(seconds)


async def test_feedback_on_an_answer_becomes_a_trajectory_with_all_that_a_trainer_needs(service, broker):
    inference = an_inference(segment="gold")
    feedback = said(inference_id=inference.inference_id, comment="short and right")
    await send(broker, a_policy(), inference, feedback)
    (event,) = await until(lambda: scored(broker))
    assert (event.reward, event.revision, event.weight, event.actor, event.segment) == (1.0, 1, 1.0, "u_1", "gold")
    assert event.completion_token_ids == inference.completion_token_ids and event.logprobs == inference.logprobs
    assert [(d.kind, d.text) for d in event.directives] == [("comment", "short and right")]
    assert event.reward_breakdown[0].because == "accepted 1"
    assert event.feedback_ids == (feedback.feedback_id,) and event.train
    record = broker.all("headrace.trajectory-scored.v1")[0]
    assert record.header("ce_causationid") in (feedback.event_id(), inference.event_id()), "whichever came later"


async def test_feedback_that_comes_before_its_inference_waits_and_is_joined(service, broker):
    inference = an_inference()
    await send(broker, a_policy(), said(inference_id=inference.inference_id, value=False))
    async with client(service) as http:
        await until(lambda: orphans(http, 1))
        await send(broker, inference)
        (event,) = await until(lambda: scored(broker))
        assert event.reward == 0.0
        await until(lambda: orphans(http, 0))
        stats = (await http.get("/v1/stats")).json()
        assert (stats["joined"], stats["inferences"], stats["trajectories"]) == (1, 1, 1)


async def orphans(http, count):
    return (await http.get("/v1/stats")).json()["orphans"] == count


async def test_everything_twice_and_in_any_order_gives_one_trajectory_each(service, broker):
    inferences = [an_inference(correlation_id=f"order-{n}") for n in range(20)]
    facts = [a_policy(), *inferences]
    for n, inference in enumerate(inferences):
        facts.append(said(inference_id=inference.inference_id, value=n % 2 == 0))
        facts.append(said("comment", f"remark {n}", correlation_id=f"order-{n}", by="u_2"))
    facts *= 2
    random.Random(7).shuffle(facts)
    await send(broker, *facts)
    await until(
        lambda: (
            len(newest(broker)) == 20 and all(e.directives and e.reward is not None for e in newest(broker).values())
        )
    )
    await quiet(broker)
    for n, inference in enumerate(inferences):
        event = newest(broker)[inference.inference_id]
        assert event.reward == float(n % 2 == 0) and event.directives[0].text == f"remark {n}"
    revisions = [(e.trajectory_id, e.revision) for e in scored(broker)]
    assert len(set(revisions)) == len(revisions)


async def test_an_opinion_about_an_episode_counts_for_each_of_its_inferences_also_later_ones(service, broker):
    episode = an_episode()
    first, second = an_inference(episode), an_inference(episode)
    own = said(inference_id=first.inference_id, value=False)
    await send(broker, a_policy(), first, own, said(episode_id=episode))
    await until(lambda: scored(broker))
    await send(broker, second)
    await until(lambda: len(newest(broker)) == 2)
    await quiet(broker)
    assert newest(broker)[first.inference_id].reward == 0.0, "what is said of the answer itself is nearer"
    assert newest(broker)[second.inference_id].reward == 1.0
    assert "of the episode" in newest(broker)[second.inference_id].reward_breakdown[0].because


async def test_a_changed_and_a_retracted_opinion_are_revisions(service, broker):
    inference = an_inference()
    about = {"inference_id": inference.inference_id}
    await send(broker, a_policy(), inference, said(**about))
    await until(lambda: scored(broker))
    await send(broker, said(value=False, revision=2, **about))
    await until(lambda: len(scored(broker)) == 2)
    await send(broker, said(value=True, revision=1, sequence=1, **about))  # an old one that was on its way for long
    await send(broker, said(value=None, revision=3, **about))
    await until(lambda: len(scored(broker)) == 3)
    assert [(e.revision, e.reward) for e in scored(broker)] == [(1, 1.0), (2, 0.0), (3, None)]
    assert scored(broker)[2].feedback_ids == () and scored(broker)[2].directives == ()


async def test_a_demonstration_is_a_correction_and_no_reward(service, broker):
    inference = an_inference()
    await send(
        broker,
        a_policy(),
        inference,
        said("demonstration", {"content": "It left."}, inference_id=inference.inference_id),
    )
    (event,) = await until(lambda: scored(broker))
    assert event.reward is None and event.reward_breakdown == ()
    assert [(d.kind, d.text) for d in event.directives] == [("correction", "It left.")]


async def test_a_comparison_prefers_the_chosen_and_hands_on_both(service, broker):
    chosen, rejected = an_inference(), an_inference()
    value = {"chosen": chosen.inference_id, "rejected": rejected.inference_id}
    await send(broker, a_policy(), said("comparison", value, inference_id=chosen.inference_id), chosen)
    await until(lambda: scored(broker))
    await send(broker, rejected)
    await until(lambda: len(newest(broker)) == 2)
    assert newest(broker)[chosen.inference_id].preferred_over == rejected.inference_id
    other = newest(broker)[rejected.inference_id]
    assert other.preferred_over is None and other.reward is None and other.feedback_ids
    await send(broker, said("comparison", None, revision=2, inference_id=chosen.inference_id))
    await until(lambda: all(e.revision == 2 for e in newest(broker).values()))
    assert all(e.preferred_over is None and not e.feedback_ids for e in newest(broker).values())


async def test_judged_inferences_wait_for_their_policy_and_a_rule_alone_makes_no_trajectory(service, broker):
    judged, silent = an_inference(), an_inference()
    reward = {
        "parts": [
            {"name": "user", "kind": "feedback"},
            {"name": "format", "kind": "rule", "weight": 1.0, "rule": {"max_words": 3}},
        ]
    }
    await send(broker, judged, silent, said(inference_id=judged.inference_id))
    async with client(service) as http:
        await until(lambda: waiting(http, 1))
        assert (await trajectory(http, judged))["state"] == "waiting for its policy"
        await send(broker, a_policy(reward=reward))
        (event,) = await until(lambda: scored(broker))
        assert event.reward == 0.5
        assert [(p.name, p.value, p.weight) for p in event.reward_breakdown] == [("user", 1, 0.5), ("format", 0, 0.5)]
        await until(lambda: waiting(http, 0))
        read = await trajectory(http, judged)
        assert (read["state"], read["reward"], read["revision"]) == ("scored", 0.5, 1)
        assert read["feedback"][0]["metric_name"] == "accepted"
        assert (await trajectory(http, silent))["state"] == "no feedback"
        assert (await http.get("/v1/trajectories/nobody")).status_code == 404
    assert len(scored(broker)) == 1


async def waiting(http, count):
    return (await http.get("/v1/stats")).json()["waiting"] == count


async def trajectory(http, inference):
    return (await http.get(f"/v1/trajectories/{inference.inference_id}")).json()


async def test_a_policy_that_came_in_a_race_is_found_by_the_sweeper(service, broker, database):
    import asyncpg

    inference = an_inference()
    await send(broker, inference, said(inference_id=inference.inference_id))
    async with client(service) as http:
        await until(lambda: waiting(http, 1))
    policy = a_policy()
    from headrace_schemas import PolicySpec

    spec = PolicySpec.model_validate(policy.spec)
    admin = await asyncpg.connect(database)
    await admin.execute(
        "INSERT INTO reward.policy (project, policy, revision, digest, reward) VALUES ('default', 'support', 1, $1, $2)",
        spec.reward_digest(),
        spec.reward.model_dump_json(),
    )
    await admin.close()
    (event,) = await until(lambda: scored(broker))
    assert event.reward == 1.0


async def test_a_new_policy_file_scores_what_is_judged_from_then_on(service, broker):
    before, after = an_inference(), an_inference()
    await send(broker, a_policy(), before, said("copied", inference_id=before.inference_id), after)
    await quiet(broker)
    assert not scored(broker), "nobody listens to `copied` yet"
    listening = a_policy(2, reward={"parts": [{"name": "user", "kind": "feedback", "metrics": {"copied": 1}}]})
    async with client(service) as http:
        assert (await http.get("/v1/stats")).json()["metrics_not_used"] == {"default": {"copied": 1}}
        await send(broker, listening)
        await until(lambda: heard(http))
    await send(broker, said("copied", inference_id=after.inference_id))
    (event,) = await until(lambda: scored(broker))
    assert event.trajectory_id == after.inference_id
    assert event.spec_digest != ""


async def heard(http):
    return (await http.get("/v1/stats")).json()["metrics_not_used"] == {}


async def test_answers_that_failed_or_may_not_be_learned_from_are_scored_and_kept_from_training(service, broker):
    failed, private = an_inference(state="upstream_failed"), an_inference(train=False)
    await send(broker, a_policy(), failed, private, *(said(inference_id=i.inference_id) for i in (failed, private)))
    await until(lambda: len(newest(broker)) == 2)
    assert all(e.reward == 1.0 and not e.train for e in newest(broker).values())


async def test_projects_do_not_meet(service, broker):
    inference = an_inference()
    await send(broker, a_policy(), inference, said(inference_id=inference.inference_id, project="other"))
    await quiet(broker)
    assert not scored(broker)


async def test_orphans_are_given_up_after_their_time_and_counted(database, broker, clock):
    service = build(
        RewardSettings(orphan_ttl_s=60, sweep_every_s=3600), platform(database), bus=MemoryBus(broker), clock=clock
    )
    inference = an_inference()
    async with started(service), client(service) as http:
        await send(broker, a_policy(), said(inference_id=inference.inference_id))
        await until(lambda: orphans(http, 1))
        assert await sweeper.expire(service, RewardSettings(orphan_ttl_s=60)) == 0
        clock.move(61)
        assert await sweeper.expire(service, RewardSettings(orphan_ttl_s=60)) == 1
        stats = (await http.get("/v1/stats")).json()
        assert (stats["orphans"], stats["orphans_expired"]) == (0, 1)
        await send(broker, inference)
        await quiet(broker)
    assert not scored(broker)


async def test_feedback_that_breaks_the_contract_goes_to_the_dead_letters_and_the_next_is_taken(service, broker):
    inference = an_inference()
    bad = said("comparison", {"chosen": "a", "rejected": "a"}, inference_id=inference.inference_id)
    nul = said("accept\x00ed", True, inference_id=inference.inference_id)
    both = said(inference_id=inference.inference_id).model_copy(update={"episode_id": inference.episode_id})
    await send(broker, a_policy(), inference, bad, nul, both, said(inference_id=inference.inference_id))
    await broker.append([Outgoing("headrace.policy-changed.v1", b"x", b'{"type": "nonsense"}')])
    (event,) = await until(lambda: scored(broker))
    assert event.reward == 1.0
    letters = await until(
        lambda: (
            len(broker.all("headrace.feedback-recorded.v1.dlq")) == 3
            and broker.all("headrace.feedback-recorded.v1.dlq")
        )
    )
    assert {r.header("headrace-dlq-code") for r in letters} == {"feedback", "nul_character"}
    assert service.alive() is None


async def test_text_with_a_nul_in_it_is_joined_like_any_other(service, broker):
    inference = an_inference(completion="odd \x00 text", messages=({"role": "user", "content": "\x00"},))
    await send(broker, a_policy(), inference, said(inference_id=inference.inference_id, comment="what is \x00?"))
    (event,) = await until(lambda: scored(broker))
    assert event.completion == "odd \x00 text" and event.directives[0].text == "what is \x00?"


async def test_tokens_above_the_median_accepted_answer_are_charged_and_failures_never(service, broker):
    from headrace_schemas.traffic import Usage

    reward = {"parts": [{"name": "user", "kind": "feedback"}], "token_cost": {"weight": 0.2, "ceiling": 0.15}}
    await send(broker, a_policy(reward=reward))

    def answer(tokens, n):
        return an_inference(
            usage=Usage(prompt_tokens=3, completion_tokens=tokens), occurred_at=NOW + timedelta(seconds=n)
        )

    for n in range(8):
        inference = answer(10, n)
        await send(broker, inference, said(inference_id=inference.inference_id))
    await until(lambda: len(newest(broker)) == 8)
    assert all(e.reward == 1.0 for e in scored(broker))
    double, slightly, short, bad = answer(20, 10), answer(15, 11), answer(5, 12), answer(40, 13)
    await send(broker, double, slightly, short, bad)
    for inference, value in ((double, True), (slightly, True), (short, True), (bad, False)):
        await send(broker, said(inference_id=inference.inference_id, value=value))
    await until(lambda: len(newest(broker)) == 12)
    rewards = {i.inference_id: newest(broker)[i.inference_id] for i in (double, slightly, short, bad)}
    assert rewards[double.inference_id].reward == pytest.approx(0.85), "the ceiling"
    assert rewards[slightly.inference_id].reward == pytest.approx(0.9)
    assert rewards[short.inference_id].reward == 1.0 and rewards[bad.inference_id].reward == 0.0
    line = rewards[slightly.inference_id].reward_breakdown[-1]
    assert (line.name, line.weight) == ("token_cost", 0.0) and line.value == pytest.approx(-0.1)
    async with client(service) as http:
        (price,) = (await http.get("/v1/stats")).json()["token_prices"]
        assert price["judged"] == 12 and price["median_accepted"] == 10


async def test_without_the_admin_token_nothing_is_told(service):
    async with client(service, authorization="Bearer wrong") as stranger:
        assert (await stranger.get("/v1/stats")).status_code == 401
