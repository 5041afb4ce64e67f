"""Sending what is left in the caller's own thread: when an interpreter ends and nothing can run beside it."""

import random
import time
from datetime import UTC, datetime

import httpx2

from headrace.buffer import Buffer
from headrace.delivery import Again, Done, judge, unreachable
from headrace.items import Item, batch_body
from headrace.options import Options


def send(http: httpx2.Client, options: Options, batch: list[Item], attempt: int) -> Done | Again:
    """One try at a batch."""
    luck = random.random()  # noqa: S311 - jitter
    try:
        answer = http.post(options.url, content=batch_body(batch))
    except httpx2.RequestError as error:
        return unreachable(error, attempt, luck)
    return judge(
        answer.status_code,
        answer.headers,
        answer.content,
        sent=len(batch),
        attempt=attempt,
        luck=luck,
        now=datetime.now(UTC),
    )


def drain(buffer: Buffer, options: Options, timeout_s: float) -> None:
    """Send all of it, for at most about `timeout_s` seconds; the rest is dropped and counted."""
    ends = time.monotonic() + timeout_s
    attempt = 1
    with httpx2.Client(headers=options.headers, timeout=min(options.timeout_s, timeout_s)) as http:
        while len(buffer) and time.monotonic() < ends:
            batch = buffer.take()
            outcome = send(http, options, batch, attempt)
            if isinstance(outcome, Done):
                buffer.settle(outcome.delivered, outcome.refused, time.monotonic(), outcome.why)
                attempt = 1
            else:
                attempt += 1
                time.sleep(max(0.0, min(outcome.pause_s, ends - time.monotonic())))
    buffer.give_up(time.monotonic(), "the process ended before the gateway took it")
