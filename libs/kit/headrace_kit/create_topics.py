"""Creates each topic of the map, with its settings, and its dead letters: `python -m headrace_kit.create_topics`.

Whoever runs the stack runs this first; running it again changes nothing.
"""

import asyncio
import sys

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from headrace_kit.errors import Retryable
from headrace_kit.settings import KafkaSettings, TopicSettings
from headrace_schemas import TOPICS, Topic


def plan(prefix: str, replication: int) -> list[NewTopic]:
    """Every topic and every dead-letter topic of a prefix."""

    def new(name: str, topic: Topic, *, dead: bool = False) -> NewTopic:
        settings = (
            {"cleanup.policy": "compact"}
            if topic.compacted and not dead
            else {
                "cleanup.policy": "delete",
                "retention.ms": str((30 * 86_400 if topic.compacted else topic.retention_s) * 1000),
            }
        )
        settings["max.message.bytes"] = str(8 * 1024 * 1024)
        if replication >= 3:
            settings["min.insync.replicas"] = "2"
        return NewTopic(name, 1 if dead else topic.partitions, replication, topic_configs=settings)

    return [new(t.name(prefix), t) for t in TOPICS] + [new(t.dead_letters(prefix), t, dead=True) for t in TOPICS]


async def create(kafka: KafkaSettings, topics: TopicSettings) -> list[str]:
    """Names of the topics that were not there before. Raises Retryable where the broker refuses."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap.split(","))
    try:
        await admin.start()
        there = set(await admin.list_topics())
        wanted = [t for t in plan(topics.prefix, topics.replication) if t.name not in there]
        made = []
        for topic in wanted:
            answer = await admin.create_topics([topic])
            for name, code, *rest in answer.topic_errors:
                if code == 0:
                    made.append(name)
                elif for_code(code) is not TopicAlreadyExistsError:
                    raise Retryable(f"the topic {name} was not created: {for_code(code).__name__} {rest}")
        await _until_whole(admin, wanted)
        return made
    except KafkaError as error:
        raise Retryable(f"topics were not created: {error!r}") from error
    finally:
        await admin.close()


async def _until_whole(admin: AIOKafkaAdminClient, topics: list[NewTopic]) -> None:
    """Wait until each partition has a leader.

    A producer that sees half of a new topic's partitions spreads keys over that half, and one key's records end up on
    two partitions, in no order.
    """
    names = [topic.name for topic in topics]
    for _ in range(100):
        found = {t["topic"]: t["partitions"] for t in await admin.describe_topics(names)} if names else {}
        led = {name: sum(p["leader"] >= 0 and p["error_code"] == 0 for p in parts) for name, parts in found.items()}
        if all(led.get(topic.name, 0) >= topic.num_partitions for topic in topics):
            return
        await asyncio.sleep(0.1)
    raise Retryable("new topics have partitions without a leader after ten seconds: look at the broker's log")


if __name__ == "__main__":
    try:
        names = asyncio.run(create(KafkaSettings(), TopicSettings()))
    except Retryable as problem:
        sys.exit(str(problem))
    sys.stdout.write(f"created {len(names)} topics\n")
