"""The example in schemas/examples, run as another team would, on records that the kit published."""

import json
import subprocess
import sys
from datetime import UTC, datetime

from headrace_kit.create_bucket import create as create_bucket
from headrace_kit.create_topics import create
from headrace_kit.kafka import KafkaBus
from headrace_kit.objects import S3Objects
from headrace_kit.records import encode
from headrace_kit.settings import TopicSettings
from headrace_schemas import FeedbackRecorded, topic_of
from headrace_schemas.generate import ROOT

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def feedback(number: int) -> FeedbackRecorded:
    return FeedbackRecorded(
        occurred_at=NOW, recorded_at=NOW, feedback_id=f"fb{number}", revision=1, sequence=number,
        correlation_id=f"ticket-{number}", metric_name="accepted", value=True,
    )  # fmt: skip


async def test_the_example_consumer_prints_each_fact_once_though_records_repeat(kafka_settings, topic_prefix):
    await create(kafka_settings, TopicSettings(prefix=topic_prefix))
    topic = topic_of(FeedbackRecorded).name(topic_prefix)
    bus = KafkaBus(kafka_settings, "test")
    records = [encode(feedback(n), topic=topic, source="feedback") for n in (1, 2, 1, 3, 2)]
    await bus.start()
    await bus.publish(records)
    await bus.stop()
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "schemas" / "examples" / "consume.py"), "feedback-recorded"),
            *("--bootstrap", kafka_settings.bootstrap, "--prefix", topic_prefix, "--group", topic_prefix),
            *("--count", "3"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(fact["id"] for fact in facts) == ["fb1.1", "fb2.1", "fb3.1"], done.stderr
    assert facts[0]["metric_name"] == "accepted"


async def test_the_bucket_is_made_once_and_asking_again_changes_nothing(s3_settings):
    objects = S3Objects(s3_settings)
    assert "does not exist" in await objects.ping()
    await create_bucket(s3_settings)
    await create_bucket(s3_settings)
    assert await objects.ping() is None
