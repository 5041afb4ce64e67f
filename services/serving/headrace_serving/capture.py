"""Terminal records into the spool. Capturing never fails an answer: what cannot be taken is counted and told."""

import asyncio
import time
from collections.abc import Callable

import structlog

from headrace_kit.bus import Bus
from headrace_kit.records import encode
from headrace_kit.spool import Spool, SpoolFull
from headrace_schemas import InferenceCompleted, topic_of
from headrace_serving.telemetry import SPOOL_DROPPED, SPOOL_PENDING

log = structlog.get_logger()


class Capture:
    """`write` from the request path, `run` as the service's task."""

    def __init__(self, spool: Spool, prefix: str) -> None:
        self.spool = spool
        self._topic = topic_of(InferenceCompleted).name(prefix)
        self._last_warning = float("-inf")
        self._dropped = 0

    def write(self, build: Callable[[], InferenceCompleted]) -> None:
        """Build a record and take it. A record that cannot be built is a bug of ours, and still no failed answer."""
        try:
            self.spool.append(encode(build(), topic=self._topic, source="serving"))
        except (SpoolFull, ValueError, OSError) as why:  # pydantic's errors are ValueErrors
            self._count(why)

    def _count(self, why: Exception) -> None:
        SPOOL_DROPPED.inc()
        self._dropped += 1
        if time.monotonic() - self._last_warning > 60:
            self._last_warning = time.monotonic()
            log.error("inferences are answered but not recorded", dropped=self._dropped, because=str(why))

    async def durable(self) -> None:
        try:
            await self.spool.durable()
        except OSError as why:
            self._count(why)

    async def run(self, bus: Bus) -> None:
        forwarding = asyncio.create_task(self.spool.run(bus))
        try:
            while not forwarding.done():
                SPOOL_PENDING.set(self.spool.pending_bytes)
                await asyncio.wait({forwarding}, timeout=1.0)
            await forwarding
        finally:
            forwarding.cancel()
