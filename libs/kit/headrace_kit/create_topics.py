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
        return made
    except KafkaError as error:
        raise Retryable(f"topics were not created: {error!r}") from error
    finally:
        await admin.close()


if __name__ == "__main__":
    names = asyncio.run(create(KafkaSettings(), TopicSettings()))
    sys.stdout.write(f"created {len(names)} topics\n")
