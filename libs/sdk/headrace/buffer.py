"""What waits to be sent, and the count of what became of everything. No thread, no network: both clients use it."""

import logging
from collections import deque
from dataclasses import dataclass

from headrace.items import Item

MAX_BATCH_BYTES = 900 * 1024
"""The gateway takes 1 MB."""
COMPLAIN_EVERY_S = 60.0
log = logging.getLogger("headrace")


@dataclass(frozen=True)
class Stats:
    """Pieces of feedback by what became of them since the client was made."""

    delivered: int
    refused: int
    """The gateway, or our own check, said that it can never be taken."""
    dropped: int
    """Lost without being tried to the end: the queue was full, or the client was closed too early."""
    pending: int


class Buffer:
    """A bounded queue. The caller brings the lock (or has none to bring, on one event loop) and the clock."""

    def __init__(self, size: int, batch_size: int) -> None:
        self._size = size
        self._batch_size = batch_size
        self._waiting: deque[tuple[float, Item]] = deque()
        self.taken_in = 0
        """Items that found room, ever; what is sent first in comes to its end first."""
        self._in_flight: list[Item] = []
        self._delivered = self._refused = self._dropped = 0
        self._lost_unsaid = 0
        self._why = ""
        self._complained_at = float("-inf")

    def __len__(self) -> int:
        """Everything that has not ended yet."""
        return len(self._waiting) + len(self._in_flight)

    def stats(self) -> Stats:
        return Stats(self._delivered, self._refused, self._dropped, len(self))

    def put(self, item: Item, now: float) -> bool:
        """Whether there was room; where there was none the item is counted as dropped."""
        if len(self) >= self._size:
            self.lose(1, now, f"the queue of {self._size} is full", dropped=True)
            return False
        self._waiting.append((now, item))
        self.taken_in += 1
        return True

    @property
    def ended(self) -> int:
        """How many of `taken_in` came to their end."""
        return self.taken_in - len(self)

    @property
    def lost(self) -> int:
        return self._refused + self._dropped

    @property
    def why(self) -> str:
        """The reason of the last loss."""
        return self._why

    def due_in(self, now: float, every_s: float) -> float | None:
        """Seconds until the next batch should go; 0 or less: now; None: there is nothing."""
        if not self._waiting:
            return None
        if len(self._waiting) >= self._batch_size:
            return 0.0
        return self._waiting[0][0] + every_s - now

    def take(self) -> list[Item]:
        """The next batch, now in flight: `settle` it; one that was not comes again, and its ids make it count once."""
        size = sum(len(item.body) + 1 for item in self._in_flight)
        while self._waiting and len(self._in_flight) < self._batch_size:
            size += len(self._waiting[0][1].body) + 1
            if size > MAX_BATCH_BYTES and self._in_flight:
                break
            self._in_flight.append(self._waiting.popleft()[1])
        return list(self._in_flight)

    def settle(self, delivered: int, refused: int, now: float, why: str = "") -> None:
        """The batch in flight came to its end."""
        self._in_flight.clear()
        self._delivered += delivered
        if refused:
            self.lose(refused, now, why, dropped=False)

    def give_up(self, now: float, why: str) -> None:
        """Everything that is left counts as dropped."""
        if lost := len(self):
            self._waiting.clear()
            self._in_flight.clear()
            self.lose(lost, now, why, dropped=True)

    def lose(self, count: int, now: float, why: str, *, dropped: bool) -> None:
        """Count, and say so at most once a minute."""
        if dropped:
            self._dropped += count
        else:
            self._refused += count
        self._lost_unsaid += count
        self._why = why
        self.complain(now)

    def complain(self, now: float, *, at_last: bool = False) -> None:
        """Log what was lost since the last time, if it is time for it."""
        if self._lost_unsaid and (at_last or now - self._complained_at >= COMPLAIN_EVERY_S):
            log.warning("pieces of feedback lost: %d; the last because %s", self._lost_unsaid, self._why)
            self._lost_unsaid = 0
            self._complained_at = now
