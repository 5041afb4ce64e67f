"""The synchronous client: one background thread while there is something to send, none while there is not."""

import atexit
import os
import threading
import time
import weakref
from types import TracebackType
from typing import Self

import httpx2

from headrace.buffer import Buffer
from headrace.delivery import Done
from headrace.drain import drain, send
from headrace.items import Item
from headrace.recorder import Recorder

LAST_CALL_S = 5.0
"""So long a process that ends waits for its feedback to go."""
_OPEN: "weakref.WeakSet[Headrace]" = weakref.WeakSet()


class Headrace(Recorder):
    """Feedback from an app that is not asynchronous. Make one and share it between threads.

    Delivery is at least once with the same ids, so that everything counts once. Use it as a context manager, or call
    `close()`, or let the end of the process do it.
    """

    IDLE_S = 5.0
    """A thread with nothing to do ends after so long; the next piece of feedback starts one again."""

    def flush(self, timeout: float | None = 10.0) -> bool:
        """Send everything recorded so far; waits at most `timeout` seconds. Whether all of it came to its end.

        With `strict=True` raises FeedbackError where something was lost or time ran out.
        """
        with self._changed:
            lost, mark = self._buffer.lost, self._buffer.taken_in
            self._flushing += 1
            self._changed.notify_all()
            try:
                flushed = self._changed.wait_for(lambda: self._buffer.ended >= mark, timeout)
            finally:
                self._flushing -= 1
        return self._judge_flush(flushed=flushed, lost_before=lost)

    def close(self, timeout: float = LAST_CALL_S) -> None:
        """Flush for at most `timeout` seconds, then stop; what is left is dropped and counted. Twice is fine."""
        lost = self._buffer.lost
        self.close_quietly(timeout)
        self._judge_flush(flushed=True, lost_before=lost)

    def close_quietly(self, timeout: float) -> None:
        """`close` that raises nothing, strict or not."""
        with self._changed:
            already, self._closed = self._closed, True
            alive = self._thread is not None and self._thread.is_alive()
        if already:
            return
        _OPEN.discard(self)
        if len(self._buffer) and not alive:  # the interpreter is ending and starts no threads any more
            drain(self._buffer, self._options, timeout)
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._buffer) == 0, timeout)
            self._abandoned = True
            self._changed.notify_all()
            now = time.monotonic()
            self._buffer.give_up(now, "the client was closed before the gateway took it")
            self._buffer.complain(now, at_last=True)
        if not alive or self._thread is None:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ---- inside -----------------------------------------------------------------------------------------------------
    def _reset(self) -> None:
        self._buffer = Buffer(self._options.queue_size, self._options.batch_size)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._flushing = 0
        self._abandoned = False
        # Made in the app's thread, not in ours: its first use imports modules, and a fork in the middle of that would
        # leave the child with half a module.
        self._http = httpx2.Client(headers=self._options.headers, timeout=self._options.timeout_s)
        _OPEN.add(self)

    def _put(self, item: Item) -> None:
        with self._changed:
            if not self._queue(item):
                return
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="headrace-feedback", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is ending: close() sends it
                    return
                self._thread = thread
            self._changed.notify_all()

    def _run(self) -> None:
        while batch := self._next():
            self._deliver(batch)

    def _next(self) -> list[Item]:
        """The next batch once it is due; none where the thread should end."""
        with self._changed:
            idle_since = time.monotonic()
            while not self._abandoned:
                now = time.monotonic()
                due = self._buffer.due_in(now, self._options.flush_every_s)
                if due is not None and (due <= 0 or self._flushing or self._closed):
                    return self._buffer.take()
                if due is None and (self._closed or now - idle_since >= self.IDLE_S):
                    break
                self._buffer.complain(now)
                self._changed.wait(self.IDLE_S if due is None else due)
            self._thread = None
            return []

    def _deliver(self, batch: list[Item]) -> None:
        attempt = 1
        while True:
            outcome = send(self._http, self._options, batch, attempt)
            with self._changed:
                if self._abandoned:
                    return
                now = time.monotonic()
                if isinstance(outcome, Done):
                    self._buffer.settle(outcome.delivered, outcome.refused, now, outcome.why)
                    self._changed.notify_all()
                    return
                self._buffer.complain(now)
                self._changed.wait_for(lambda: self._abandoned, outcome.pause_s)
            attempt += 1


def _close_all() -> None:
    for client in tuple(_OPEN):
        client.close_quietly(LAST_CALL_S)


def _after_fork_in_child() -> None:
    for client in tuple(_OPEN):
        client._reset()  # noqa: SLF001 - this module's own


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
