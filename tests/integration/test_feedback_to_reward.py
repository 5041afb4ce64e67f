"""Feedback and reward on both brokers: parallel posts, feedback before its inference, repeats, and a kill."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys

import httpx2
from aiokafka import AIOKafkaConsumer, TopicPartition

from feedback_parts import TOKEN, a_policy, an_inference, client, platform, started, until
from headrace_feedback.app import build as build_feedback
from headrace_feedback.settings import FeedbackSettings
from headrace_kit.create_topics import create
from headrace_kit.kafka import KafkaBus, record_of
from headrace_kit.migrate import upgrade
from headrace_kit.records import decode, encode
from headrace_kit.settings import TopicSettings
from headrace_reward.app import build as build_reward
from headrace_reward.settings import RewardSettings
from headrace_schemas import FeedbackRecorded, TrajectoryScored, topic_of


async def everything(kafka, event, prefix):
    """All records of a topic so far, decoded."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        name = topic_of(event).name(prefix)
        partitions = [TopicPartition(name, n) for n in range(topic_of(event).partitions)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        records = []
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for batch in (await consumer.getmany(timeout_ms=500)).values():
                records += batch
        return [decode(record_of(record), event) for record in records]
    finally:
        await consumer.stop()


async def test_two_hundred_opinions_in_parallel_meet_their_inferences(database_url, kafka_settings, topic_prefix):
    await create(kafka_settings, TopicSettings(prefix=topic_prefix))
    for package in ("headrace_feedback", "headrace_reward"):
        await upgrade(database_url, package)
    settings = platform(database_url, topic_prefix, kafka_settings)
    feedback, reward = build_feedback(FeedbackSettings(), settings), build_reward(RewardSettings(), settings)
    gateway = KafkaBus(kafka_settings, "test-gateway")
    await gateway.start()

    async def publish(*events):
        topics = [encode(e, topic=topic_of(type(e)).name(topic_prefix), source="test") for e in events]
        await gateway.publish(topics)

    inferences = [an_inference() for _ in range(200)]
    async with started(feedback), started(reward), client(feedback) as http, client(reward) as status:

        async def say(inference, n):
            body = {"inference_id": inference.inference_id, "metric_name": "accepted", "value": n % 2 == 0}
            return await http.post("/v1/feedback", json=body)

        await publish(a_policy(), *inferences[:100])
        answers = await asyncio.gather(*(say(inference, n) for n, inference in enumerate(inferences)))
        assert all(answer.status_code == 202 for answer in answers)

        async def stats():
            return (await status.get("/v1/stats")).json()

        async def hundred_wait():
            now = await stats()
            return now["orphans"] == 100 and now["trajectories"] == 100

        await until(hundred_wait, 60)
        await publish(*inferences[100:], *inferences)  # the late ones, and all of them once more

        async def all_joined():
            now = await stats()
            return now["orphans"] == 0 and now["trajectories"] == 200 and now["joined"] == 200

        await until(all_joined, 60)
        ids = {answer.json()["id"] for answer in answers}
        assert len(ids) == 200

        async def all_published():
            return len(await everything(kafka_settings, TrajectoryScored, topic_prefix)) >= 200

        await until(all_published, 30)
        recorded = await everything(kafka_settings, FeedbackRecorded, topic_prefix)
        trajectories = await everything(kafka_settings, TrajectoryScored, topic_prefix)
    await gateway.stop()
    assert {event.feedback_id for event in recorded} == ids and len(recorded) == 200
    assert len(trajectories) == 200
    wanted = {inference.inference_id: float(n % 2 == 0) for n, inference in enumerate(inferences)}
    assert {event.trajectory_id: event.reward for event in trajectories} == wanted


@contextlib.contextmanager
def process(database_url, bootstrap, prefix, port):
    env = os.environ | {
        "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
        "HEADRACE_DATABASE_URL": database_url,
        "HEADRACE_ADMIN_TOKEN": TOKEN,
        "HEADRACE_TOPIC_PREFIX": prefix,
        "FEEDBACK_PORT": str(port),
    }
    child = subprocess.Popen([sys.executable, "-m", "headrace_feedback"], env=env, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_feedback_of_a_process_killed_while_the_broker_was_away_is_published_by_the_next(
    database_url, kafka_settings, topic_prefix
):
    await create(kafka_settings, TopicSettings(prefix=topic_prefix))
    await upgrade(database_url, "headrace_feedback")
    port = free_port()
    headers = {"authorization": f"Bearer {TOKEN}"}
    accepted = []
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as http:

        async def listening():
            try:
                return (await http.get("/health/live")).status_code == 200
            except httpx2.TransportError:
                return False

        with process(database_url, f"127.0.0.1:{free_port()}", topic_prefix, port):
            await until(listening, 60)
            for _ in range(5):
                body = {"inference_id": an_inference().inference_id, "metric_name": "accepted", "value": True}
                answer = await http.post("/v1/feedback", json=body)
                assert answer.status_code == 202, "the request path does not wait for the broker"
                accepted.append(answer.json()["id"])
        with process(database_url, kafka_settings.bootstrap, topic_prefix, port):

            async def published():
                return len(await everything(kafka_settings, FeedbackRecorded, topic_prefix)) == 5

            await until(published, 60)
    events = await everything(kafka_settings, FeedbackRecorded, topic_prefix)
    assert sorted(event.feedback_id for event in events) == sorted(accepted)


def test_a_missing_setting_is_one_sentence_and_exit_code_2():
    env = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    for package in ("headrace_feedback", "headrace_reward"):
        ended = subprocess.run([sys.executable, "-m", package], env=env, capture_output=True, text=True)
        assert ended.returncode == 2 and len(ended.stderr.strip().splitlines()) == 1
        assert "bootstrap" in ended.stderr.lower()
