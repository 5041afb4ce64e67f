"""The calls that an app makes, the same for both clients: they check, queue, and answer at once."""

import time
from collections.abc import Mapping
from datetime import datetime

from headrace import items, options
from headrace.buffer import Buffer, Stats
from headrace.errors import FeedbackError
from headrace.items import Item, Source, Target, Value

_BAD_ARGUMENTS = (FeedbackError, TypeError, ValueError, AttributeError, LookupError)


class Recorder:
    """What `Headrace` and `AsyncHeadrace` share. No method here waits; none raises unless `strict=True`."""

    def __init__(
        self,
        gateway_url: str | None = None,
        api_key: str | None = None,
        *,
        strict: bool = False,
        disabled: bool | None = None,
        batch_size: int = 50,
        flush_every_s: float = 1.0,
        queue_size: int = 10_000,
        timeout_s: float = 10.0,
    ) -> None:
        """`gateway_url` and `api_key` default to HEADRACE_GATEWAY_URL and HEADRACE_API_KEY.

        A batch goes when `batch_size` pieces wait, or `flush_every_s` seconds after the first of them; `timeout_s`
        bounds one request; what does not find room among `queue_size` is dropped and counted.
        """
        self._options = options.read(
            gateway_url,
            api_key,
            strict=strict,
            disabled=disabled,
            batch_size=batch_size,
            flush_every_s=flush_every_s,
            queue_size=queue_size,
            timeout_s=timeout_s,
        )
        self._closed = False
        self._buffer: Buffer
        if strict and not self._options.disabled and self._options.problem:
            raise FeedbackError(_sentence(self._options.problem))
        self._reset()

    def record(
        self,
        *,
        metric_name: str,
        value: Value,
        inference_id: Target | None = None,
        episode_id: Target | None = None,
        correlation_id: str | None = None,
        comment: str | None = None,
        source: Source = None,
        tags: Mapping[str, str] | None = None,
        occurred_at: datetime | None = None,
    ) -> str:
        """Queue one piece of feedback; answers its id at once.

        Give exactly one target. `inference_id` also takes the response itself. `value` is a bool, a number or a text
        (an object for reserved metrics); None takes an earlier opinion back. `source` is who gave it: an id of yours
        for a person, or `{"kind": "human|code|model|system", "id": …}`.
        """
        feedback_id = items.new_id()
        if self._options.disabled:
            return feedback_id
        targets = {"inference_id": inference_id, "episode_id": episode_id, "correlation_id": correlation_id}
        try:
            item = items.encode(
                feedback_id,
                metric_name=metric_name,
                value=value,
                targets=targets,
                comment=comment,
                source=source,
                tags=tags,
                occurred_at=occurred_at,
            )
        except _BAD_ARGUMENTS as error:
            self._refuse(str(error), error)
        else:
            self._put(item)
        return feedback_id

    def accepted(
        self,
        target: Target,
        *,
        comment: str | None = None,
        source: Source = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """The user took the answer: a thumb up, a merge, a send."""
        return self._about(target, "accepted", True, comment, source, tags)

    def rejected(
        self,
        target: Target,
        *,
        comment: str | None = None,
        source: Source = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """The user did not take the answer."""
        return self._about(target, "accepted", False, comment, source, tags)

    def corrected(
        self,
        target: Target,
        text: str,
        *,
        comment: str | None = None,
        source: Source = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """`text` is the answer as it should have been."""
        return self._about(target, "demonstration", text, comment, source, tags)

    def comment(
        self,
        target: Target,
        text: str,
        *,
        source: Source = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """`text` is what the user said about the answer."""
        return self._about(target, "comment", text, None, source, tags)

    @property
    def stats(self) -> Stats:
        """What became of everything recorded so far."""
        return self._buffer.stats()

    # ---- for the clients --------------------------------------------------------------------------------------------
    def _about(
        self,
        target: Target,
        metric_name: str,
        value: Value,
        comment: str | None,
        source: Source,
        tags: Mapping[str, str] | None,
    ) -> str:
        try:
            fields = items.target_fields(target)
        except _BAD_ARGUMENTS as error:
            if not self._options.disabled:
                self._refuse(str(error), error)
            return items.new_id()
        return self.record(
            metric_name=metric_name,
            value=value,
            inference_id=fields.get("inference_id"),
            episode_id=fields.get("episode_id"),
            comment=comment,
            source=source,
            tags=tags,
        )

    def _reset(self) -> None:
        """A fresh start: when made, and in the child of a fork, where the parent sends what was queued."""
        raise NotImplementedError

    def _put(self, item: Item) -> None:
        """Queue it and see to it that somebody sends it."""
        raise NotImplementedError

    def _refuse(self, why: str, cause: Exception | None = None, *, dropped: bool = False) -> None:
        self._buffer.lose(1, time.monotonic(), why, dropped=dropped)
        if self._options.strict:
            raise FeedbackError(_sentence(why)) from cause

    def _queue(self, item: Item) -> bool:
        """Whether it is queued; else it is counted and, where strict, raised."""
        if self._options.problem:
            self._refuse(self._options.problem)
        elif self._closed:
            self._refuse("the client was closed before", dropped=True)
        elif not self._buffer.put(item, time.monotonic()):
            if self._options.strict:
                raise FeedbackError(_sentence(self._buffer.why))
        else:
            return True
        return False

    def _judge_flush(self, *, flushed: bool, lost_before: int) -> bool:
        """What `flush` answers; where strict, anything lost raises."""
        if self._options.strict and self._buffer.lost > lost_before:
            raise FeedbackError(_sentence(f"feedback was lost, {self._buffer.why}"))
        if self._options.strict and not flushed:
            raise FeedbackError("Feedback is still on its way: is the gateway up? Flush again, or give more time.")
        return flushed


def _sentence(why: str) -> str:
    text = why[:1].upper() + why[1:]
    return text if text.endswith((".", "…", "!")) else f"{text}."
