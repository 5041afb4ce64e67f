"""Time as a dependency, so that tests can move it."""

import secrets
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol

from headrace_schemas.ids import uuid7


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall time in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def new_uuid7() -> uuid.UUID:
    """A sortable unique id by the system's clock and randomness."""
    return uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))
