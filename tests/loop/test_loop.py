"""One piece of feedback turns into a promoted version, and what surrounds that."""

import asyncio

from headrace_schemas import AdapterObserved, EvaluationCompleted, InferenceCompleted, TrajectoryScored, topic_of
from headrace_kit.records import decode

TAUGHT = "Use the return label in the box."


def events(loop, model):
    return [decode(r, model) for r in loop.broker.all(topic_of(model).name())]


async def champion(loop):
    return (await loop.get("registry", "/v1/policies/support/route"))["champion"]["version"]


def promoted(loop, version):
    async def check():
        return await champion(loop) == version

    return check


async def test_one_correction_becomes_a_promoted_version_that_answers_the_next_request(loop):
    headers, answer = await loop.ask("How do I return my kettle?")
    assert headers["x-headrace-version"].endswith("0")
    assert answer.choices[0].message.content.startswith("This is what the base model")

    said = await loop.say(
        inference_id=answer.id, metric_name="demonstration", value=TAUGHT, source={"kind": "human", "id": "u1"}
    )
    assert said.status_code == 202, said.text
    await loop.until(promoted(loop, 1))

    async def taught():
        headers, answer = await loop.ask("How do I return my lamp?")
        return answer.choices[0].message.content == TAUGHT and headers["x-headrace-version"].endswith("1")

    await loop.until(taught)
    told = await loop.get("registry", "/v1/versions/support/1")
    assert told["state"] == "champion"
    assert told["data"]["samples"] == 1
    assert told["reports"][0]["verdict"] == "promote"
    assert told["reports"][0]["candidate_digest"] == told["digest"]
    assert told["proofs"][0]["probe"]["differs_from_base"]
    assert told["promoted"]["at"]
    manifest, samples = loop.trainer.runs[0]
    assert samples[0].inference_id == answer.id and samples[0].demonstration == TAUGHT

    # Every version that answered anyone was proved by an agent before.
    served = {i.adapter_digest for i in events(loop, InferenceCompleted) if i.adapter_digest}
    proved = {
        a.digest
        for o in events(loop, AdapterObserved)
        for a in o.adapters
        if a.state == "ready" and a.probe.differs_from_base
    }
    assert served and served <= proved

    # One trace runs from the request to the reward.
    inference = next(r for r in loop.broker.all(topic_of(InferenceCompleted).name()) if r.header("ce_id") == answer.id)
    assert inference.header("traceparent")

    rolled = await loop.http.post(
        loop.url("registry") + "/v1/policies/support/rollback", json={"by": "me", "reason": "test"}
    )
    assert rolled.status_code == 200, rolled.text

    async def old_answer():
        _, answer = await loop.ask("How do I return my tent?")
        return answer.choices[0].message.content.startswith("This is what the base model")

    await loop.until(old_answer)
    assert (await loop.get("registry", "/v1/versions/support/1"))["state"] == "quarantined"


async def test_a_worse_version_never_answers_a_user(loop):
    loop.trainer.teach = "No. " + "word " * 30
    _, answer = await loop.ask("How do I return my kettle?")
    await loop.say(inference_id=answer.id, metric_name="accepted", value=False)

    async def judged():
        return events(loop, EvaluationCompleted)

    report = (await loop.until(judged))[0]
    assert report.verdict in ("hold", "reject")
    assert await champion(loop) == 0
    users = [i for i in events(loop, InferenceCompleted) if i.train]
    assert {i.policy_version for i in users} == {0}


async def test_feedback_before_its_inference_waits_and_joins(loop):
    said = await loop.say(correlation_id="order-7", metric_name="accepted", value=True)
    assert said.status_code == 202
    await asyncio.sleep(0.3)
    assert not events(loop, TrajectoryScored)
    _, answer = await loop.ask("Where is order 7?", extra_body={"headrace": {"correlation_id": "order-7"}})

    async def joined():
        return events(loop, TrajectoryScored)

    trajectory = (await loop.until(joined))[0]
    assert trajectory.trajectory_id == answer.id
    assert trajectory.reward is not None and trajectory.reward > 0.5
    assert {p.name for p in trajectory.reward_breakdown} >= {"user", "short"}
    assert len(trajectory.logprobs) == len(trajectory.completion_token_ids) > 0


async def test_a_malformed_batch_says_what_is_wrong_item_by_item_and_the_rest_counts(loop):
    _, answer = await loop.ask("Hello?")
    batch = {
        "items": [
            {"inference_id": answer.id, "metric_name": "accepted", "value": True},
            {"metric_name": "accepted", "value": True},
            {"inference_id": answer.id, "episode_id": "ep", "metric_name": "accepted", "value": True},
            {"inference_id": answer.id, "metric_name": "stars", "value": 0.5},
            {"inference_id": answer.id, "value": 0.5},
        ]
    }
    from tests.loop.conftest import KEY

    sent = await loop.http.post(
        loop.url("gateway") + "/v1/feedback/batch", json=batch, headers={"Authorization": f"Bearer {KEY}"}
    )
    body = sent.json()
    assert body["accepted"] == 2, body
    assert [r["index"] for r in body["rejected"]] == [1, 2, 4]
    assert all(r["error"]["code"] and r["error"]["message"] for r in body["rejected"])


async def test_bad_requests_get_a_clear_error_and_change_nothing(loop):
    from openai import AuthenticationError, NotFoundError, AsyncOpenAI

    before = len(loop.engine.requests)
    try:
        await loop.ask("x", model="nobody")
    except NotFoundError as error:
        assert error.code == "model_not_found" and "support" in str(error)
    else:
        raise AssertionError
    stranger = AsyncOpenAI(
        base_url=loop.url("gateway") + "/v1", api_key="hr_abcdefgh_wrongwrongwrongwrongwrong", max_retries=0
    )
    try:
        await stranger.chat.completions.create(model="support", messages=[{"role": "user", "content": "x"}])
    except AuthenticationError:
        pass
    else:
        raise AssertionError
    await stranger.close()
    bad = await loop.http.put(
        loop.url("registry") + "/v1/policies/other",
        json={"policy": "other", "base_model": "fake-base", "reward": {"parts": []}, "gate": {"suit": "x"}},
    )
    assert bad.status_code == 422
    assert "gate" in bad.json()["error"]["param"] or "reward" in bad.json()["error"]["param"]
    assert len([r for r in loop.engine.requests if r.get("messages") == [{"role": "user", "content": "x"}]]) == 0
    assert before <= len(loop.engine.requests)


async def test_services_that_restart_at_any_point_lose_nothing_and_count_nothing_twice(loop):
    loop.trainer.teach = TAUGHT
    answers = [(await loop.ask(f"Question {n}?"))[1] for n in range(12)]
    restarts = ["reward", "feedback", "training", "registry", "gateway", "evaluation"]
    for number, answer in enumerate(answers):
        if number % 2 == 0:
            name = restarts[number // 2]
            await loop.stop(name)
            await loop.start(name)

        async def accepted(answer=answer):
            said = await loop.say(id=f"fb-{answer.id}", inference_id=answer.id, metric_name="accepted", value=True)
            return said.status_code in (200, 202)

        await loop.until(accepted)
        await accepted()

    async def all_joined():
        return len({t.trajectory_id for t in events(loop, TrajectoryScored)}) == 12

    await loop.until(all_joined)
    stats = await loop.get("reward", "/v1/stats")
    assert stats["orphans"] == 0, stats
    revisions = [(t.trajectory_id, t.revision) for t in events(loop, TrajectoryScored)]
    assert len(revisions) == len(set(revisions))
