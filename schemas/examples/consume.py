# ruff: noqa: INP001, T201 - a script that prints
"""Follows one of Headrace's topics and prints what is new: a consumer in another team's hands.

    python consume.py trajectory-scored --bootstrap 127.0.0.1:9092

Needs only `pip install aiokafka`. Repeated records are recognised by their `ce_id`; offsets are committed after the
effect, so a crash repeats records and loses none. A real consumer keeps the ids it has seen with its effect, in one
transaction of its own database.
"""

import argparse
import asyncio
import json
import os

from aiokafka import AIOKafkaConsumer


async def follow(topic: str, bootstrap: str, group: str, count: int | None) -> None:
    """Print each fact once; `count` of them, or for ever."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    seen: set[str] = set()
    await consumer.start()
    try:
        async for record in consumer:
            headers = {name: value.decode() for name, value in record.headers}
            if headers["ce_id"] not in seen:
                seen.add(headers["ce_id"])
                fact = json.loads(record.value)
                print(json.dumps({"id": headers["ce_id"], "time": headers["ce_time"], **fact}), flush=True)
            await consumer.commit()
            if count is not None and len(seen) >= count:
                return
    finally:
        await consumer.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("event", help="e.g. trajectory-scored")
    parser.add_argument("--bootstrap", default=os.environ.get("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
    parser.add_argument("--group", default="example-consumer")
    parser.add_argument("--prefix", default="headrace")
    parser.add_argument("--count", type=int, help="stop after so many facts")
    options = parser.parse_args()
    topic = f"{options.prefix}.{options.event}.v1"
    asyncio.run(follow(topic, options.bootstrap, options.group, options.count))


if __name__ == "__main__":
    main()
