"""The asynchronous client: one task on the app's event loop while there is something to send."""

import asyncio
import atexit
import os
import random
import time
import weakref
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import httpx2

from headrace.buffer import Buffer
from headrace.client import LAST_CALL_S
from headrace.delivery import Again, Done, judge, unreachable
from headrace.drain import drain
from headrace.items import Item, batch_body
from headrace.recorder import Recorder

_OPEN: "weakref.WeakSet[AsyncHeadrace]" = weakref.WeakSet()


class AsyncHeadrace(Recorder):
    """Feedback from an app on asyncio. `record` and its short forms are plain calls that return at once; `flush` and
    `close` are awaited. Use it from the event loop's own thread.

    A loop that ends early loses nothing: another loop goes on, or the end of the process sends it.
    """

    IDLE_S = 5.0
    """A task with nothing to do ends after so long; the next piece of feedback starts one again."""

    async def flush(self, timeout: float | None = 10.0) -> bool:
        """Send everything recorded so far; waits at most `timeout` seconds. Whether all of it came to its end.

        With `strict=True` raises FeedbackError where something was lost or time ran out.
        """
        lost, mark = self._buffer.lost, self._buffer.taken_in
        self._flushing += 1
        try:
            flushed = await self._until(mark, timeout)
        finally:
            self._flushing -= 1
        return self._judge_flush(flushed=flushed, lost_before=lost)

    async def close(self, timeout: float = LAST_CALL_S) -> None:
        """Flush for at most `timeout` seconds, then stop; what is left is dropped and counted. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        _OPEN.discard(self)
        lost = self._buffer.lost
        await self._until(self._buffer.taken_in, timeout)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        now = time.monotonic()
        self._buffer.give_up(now, "the client was closed before the gateway took it")
        self._buffer.complain(now, at_last=True)
        self._judge_flush(flushed=True, lost_before=lost)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    # ---- inside -----------------------------------------------------------------------------------------------------
    def _reset(self) -> None:
        self._buffer = Buffer(self._options.queue_size, self._options.batch_size)
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._flushing = 0
        _OPEN.add(self)

    def _put(self, item: Item) -> None:
        if self._queue(item):
            self._see_to_it()

    def _see_to_it(self) -> None:
        """A task on the loop that runs now, if one runs; else the next call on a loop starts it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._task is None or self._task.done() or self._loop is not loop:
            self._loop = loop
            self._arrived, self._settled = asyncio.Event(), asyncio.Event()
            self._task = loop.create_task(self._run(), name="headrace-feedback")
        self._arrived.set()

    async def _until(self, mark: int, timeout: float | None) -> bool:
        """Whether the first `mark` items came to their end in time."""
        ends = None if timeout is None else time.monotonic() + timeout
        while self._buffer.ended < mark:
            self._see_to_it()
            self._settled.clear()
            try:
                # Not wait_for: on Python 3.11 it can swallow a cancellation.
                async with asyncio.timeout(None if ends is None else ends - time.monotonic()):
                    await self._settled.wait()
            except TimeoutError:
                return False
        return True

    async def _run(self) -> None:
        async with httpx2.AsyncClient(headers=self._options.headers, timeout=self._options.timeout_s) as http:
            while batch := await self._next():
                await self._deliver(http, batch)

    async def _next(self) -> list[Item]:
        """The next batch once it is due; none where the task should end."""
        idle_since = time.monotonic()
        while True:
            now = time.monotonic()
            due = self._buffer.due_in(now, self._options.flush_every_s)
            if due is not None and (due <= 0 or self._flushing or self._closed):
                return self._buffer.take()
            if due is None and (self._closed or now - idle_since >= self.IDLE_S):
                return []
            self._buffer.complain(now)
            self._arrived.clear()
            try:
                async with asyncio.timeout(self.IDLE_S if due is None else due):
                    await self._arrived.wait()
            except TimeoutError:
                pass

    async def _deliver(self, http: httpx2.AsyncClient, batch: list[Item]) -> None:
        attempt = 1
        while True:
            outcome = await self._send(http, batch, attempt)
            now = time.monotonic()
            if isinstance(outcome, Done):
                self._buffer.settle(outcome.delivered, outcome.refused, now, outcome.why)
                self._settled.set()
                return
            self._buffer.complain(now)
            await asyncio.sleep(outcome.pause_s)
            attempt += 1

    async def _send(self, http: httpx2.AsyncClient, batch: list[Item], attempt: int) -> Done | Again:
        luck = random.random()  # noqa: S311 - jitter
        try:
            answer = await http.post(self._options.url, content=batch_body(batch))
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


def _drain_all() -> None:
    """The process ends, and so has the loop: what is left goes synchronously."""
    for client in tuple(_OPEN):
        client._closed = True  # noqa: SLF001 - this module's own
        if len(client._buffer):  # noqa: SLF001
            drain(client._buffer, client._options, LAST_CALL_S)  # noqa: SLF001
        client._buffer.complain(time.monotonic(), at_last=True)  # noqa: SLF001


def _after_fork_in_child() -> None:
    for client in tuple(_OPEN):
        client._reset()  # noqa: SLF001 - this module's own


atexit.register(_drain_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
