"""The loop once on real parts: broker, PostgreSQL, S3, vLLM with runtime LoRA, one training run, one swap, one rollback.

One stack for the whole file, on an empty folder; what a person would do with the official client, the SDK and HTTP.
"""

import asyncio
import os
import signal
import time

import httpx2
import psutil
import pytest
from openai import OpenAI

from headrace import Headrace
from headrace_local import stack
from headrace_local.options import StackOptions

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
MODEL = "SmolLM2-135M-Instruct"
POLICY = {
    "policy": "support",
    "base_model": MODEL,
    "reward": {"parts": [{"name": "user", "kind": "feedback"}], "token_cost": {"weight": "auto"}},
    "train": {"trigger": {"events": 8, "min_events": 4}},
    "gate": {"suite": "support-private", "promote": "manual"},
}
ITEMS = ["kettle", "lamp", "tent", "drill"]


def case(item: str) -> dict:
    return {
        "id": item,
        "messages": [{"role": "user", "content": f"Is the {item} in stock?"}],
        "rule": {"max_words": 14, "one_line": True, "must_contain": [item]},
    }


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    root = tmp_path_factory.mktemp("stack")
    try:
        yield stack.up(root, StackOptions())
    finally:
        stack.down(root)


@pytest.fixture(scope="module")
def client(state):
    return OpenAI(base_url=f"{state.gateway_url}/v1", api_key=state.api_key, max_retries=0)


@pytest.fixture(scope="module")
def registry(state):
    return httpx2.Client(base_url=state.registry_url, headers={"Authorization": f"Bearer {state.admin_token}"})


def ask(client, item, **options):
    return client.chat.completions.with_raw_response.create(
        model=options.pop("model", "support"),
        messages=[{"role": "user", "content": f"How do I return my {item}?"}],
        max_tokens=24,
        temperature=options.pop("temperature", 1.0),
        **options,
    )


def until(what, seconds, every=0.5):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"not reached in {seconds} s: {what.__name__}")


def test_from_a_policy_file_to_an_answer_by_weights_that_users_taught(state, client, registry):
    headers = {"Authorization": f"Bearer {state.admin_token}"}
    suite = {"cases": [case(i) for i in ITEMS], "max_tokens": 24}
    pushed = httpx2.put(f"{state.evaluation_url}/v1/suites/support-private", json=suite, headers=headers, timeout=30)
    assert pushed.status_code in (200, 201), pushed.text
    applied = registry.put("/v1/policies/support", json=POLICY)
    assert applied.status_code == 201, applied.text

    def answers():
        return (
            httpx2.get(f"{state.gateway_url}/v1/models", headers={"Authorization": f"Bearer {state.api_key}"})
            .json()
            .get("data")
        )

    until(answers, 30)
    before = ask(client, "kettle", temperature=0.0)
    assert before.headers["x-headrace-version"].endswith("0")
    first = before.parse().choices[0].message.content

    feedback = Headrace(gateway_url=state.gateway_url, api_key=state.api_key)
    for number in range(8):
        item = ITEMS[number % 4]
        answer = ask(client, item).parse()
        if number % 2:
            feedback.corrected(answer, f"Return the {item} within 30 days with its receipt.")
        else:
            feedback.rejected(answer)
    feedback.flush(timeout=30)
    feedback.close()

    def registered():
        versions = registry.get("/v1/policies/support/versions").json()["data"]
        return next((v for v in versions if v["version"] > 0), None)

    version = until(registered, 240, 1.0)
    assert version["version"] == 1
    assert version["samples"] == 8

    def judged():
        told = registry.get("/v1/versions/support/1").json()
        return told if told["reports"] and told["proofs"] else None

    told = until(judged, 240, 1.0)
    probe = told["proofs"][0]["probe"]
    assert probe["finite"] and probe["differs_from_base"] and probe["max_abs_logprob_delta"] > 0
    assert told["reports"][0]["statistics"]["cases"] == 4
    assert told["reports"][0]["candidate_digest"] == told["digest"]
    assert told["data"]["samples"] == 8 and told["run"]["metrics"]

    promoted = registry.post(
        "/v1/policies/support/promote",
        json={"version": 1, "by": "e2e", "reason": "one step is not enough for the gate", "force": True},
    )
    assert promoted.status_code in (200, 202), promoted.text

    def swapped():
        answer = ask(client, "kettle", temperature=0.0)
        return answer if answer.headers["x-headrace-version"].endswith("1") else None

    after = until(swapped, 30, 0.2)
    assert after.parse().system_fingerprint == told["digest"][:12]
    assert after.parse().choices[0].message.content != first

    back = registry.post("/v1/policies/support/rollback", json={"by": "e2e", "reason": "to see the old answer"})
    assert back.status_code == 200, back.text

    def returned():
        answer = ask(client, "kettle", temperature=0.0)
        return answer if answer.headers["x-headrace-version"].endswith("0") else None

    assert until(returned, 10, 0.1).parse().choices[0].message.content == first


def test_a_stream_by_the_official_client_is_whole_and_carries_the_id_that_feedback_needs(client):
    stream = client.chat.completions.create(
        model="support",
        messages=[{"role": "user", "content": "Say hello."}],
        max_tokens=12,
        temperature=0.0,
        stream=True,
    )
    chunks = list(stream)
    whole = client.chat.completions.create(
        model="support", messages=[{"role": "user", "content": "Say hello."}], max_tokens=12, temperature=0.0
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert {c.id for c in chunks} == {chunks[0].id} and chunks[0].id.startswith("chatcmpl-")
    assert all(getattr(c.choices[0], "token_ids", None) is None for c in chunks if c.choices)


@pytest.mark.parametrize("name", ["reward", "feedback", "gateway"])
def test_a_killed_service_comes_back_and_accepted_feedback_is_joined(state, client, name):
    """kill -9, at once feedback by SDK (which retries), and after the restart its trajectory is there."""
    answer = ask(client, "lamp").parse()
    pid = stack.status(state.root).pids[name]
    os.kill(pid, signal.SIGKILL)
    with Headrace(gateway_url=state.gateway_url, api_key=state.api_key) as feedback:
        feedback.accepted(answer)
        assert feedback.flush(timeout=60)

    def joined():
        reward = stack.status(state.root).processes["reward"].url
        found = httpx2.get(
            f"{reward}/v1/trajectories/{answer.id}", headers={"Authorization": f"Bearer {state.admin_token}"}
        )
        return found.status_code == 200 and found.json()

    def joined_patiently():
        try:
            return joined()
        except httpx2.HTTPError:
            return None

    assert until(joined_patiently, 90)
    assert psutil.pid_exists(stack.status(state.root).pids[name])
