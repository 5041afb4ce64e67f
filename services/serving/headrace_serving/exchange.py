"""One inference from admission to its end.

A task of its own, the supervisor, owns the call to the engine and writes exactly one terminal record, whatever the
client does. The record is in the spool before the last byte of the answer leaves.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import aiohttp
import orjson
import structlog

from headrace_schemas.traffic import EngineFacts
from headrace_serving import telemetry
from headrace_serving.asgi import Call, Headers
from headrace_serving.capture import Capture
from headrace_serving.core.admission import Admitted
from headrace_serving.core.answer import Collected, collect, rename, strip
from headrace_serving.core.record import Outcome, State, record_of
from headrace_serving.core.refusal import Refusal, not_ready
from headrace_serving.core.replicas import Target
from headrace_serving.core.routing import Choice, Decision
from headrace_serving.core.sse import Events, frame
from headrace_serving.fleet import Fleet
from headrace_serving.upstream import BROKEN, HEADERS, Failure, UpstreamFailed, body_of, document_of, refusal_of

log = structlog.get_logger()
_MOST_TRIES = 3  # per version
_SAY_S = 5.0
_EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"),
                 (b"x-accel-buffering", b"no")]  # fmt: skip


@dataclass(frozen=True)
class Admission:
    """What was fixed at admission, and stays."""

    admitted: Admitted
    decision: Decision
    project: str
    inference_id: str
    episode_id: str
    request_id: str
    occurred_at: datetime
    began: float
    """On `time.perf_counter`."""


class Exchange:
    """`run` is the supervisor; `abort` is for whoever sees the client leave."""

    def __init__(
        self, admission: Admission, call: Call, fleet: Fleet, capture: Capture, session: aiohttp.ClientSession,
        timeout_s: float,
    ) -> None:  # fmt: skip
        self._a = admission
        self._call = call
        self._fleet = fleet
        self._capture = capture
        self._session = session
        self._timeout_s = timeout_s
        self._began = admission.began
        self._first_token: float | None = None
        self._collected = Collected()
        self._choice = admission.decision.choice
        self._fallback = False
        self._target = Target("", "", EngineFacts(base_model=admission.decision.route.base_model))
        self._gone = False
        self.recorded = False
        self._task: asyncio.Task[None] | None = None

    # ---- life -------------------------------------------------------------------------------------------------------
    def begin(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._supervise(), name=self._a.inference_id)
        return self._task

    def abort(self) -> None:
        """The client is gone: close the call to the engine now."""
        if not self.recorded and self._task is not None:
            self._gone = True
            self._task.cancel()

    async def _supervise(self) -> None:
        telemetry.IN_FLIGHT.inc()
        state: State = "upstream_failed"
        error: str | None = "the gateway stopped"
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._answer()
        except asyncio.CancelledError:
            if not self._gone:
                raise
            state, error = "client_aborted", None
        except TimeoutError:
            state, error = "timeout", f"no end of the answer after {self._timeout_s:g} s"
            self._record(state, error)
            await self._say_failed(Refusal(504, "timeout", error, kind="server_error"))
        except UpstreamFailed as failed:
            error = str(failed)
            self._record(state, error)
            await self._say_failed(Refusal(502, "upstream_failed", "the engine broke off", kind="server_error"))
        except Refusal as refusal:
            error = refusal.message
            self._record(state, error)
            await self._say_failed(refusal)
        finally:
            self._record(state, error)
            telemetry.IN_FLIGHT.dec()

    def _record(self, state: State, error: str | None = None) -> None:
        """The terminal record; the first one counts."""
        if self.recorded:
            return
        self.recorded = True
        policy, latency = self._a.decision.route.policy, time.perf_counter() - self._began
        telemetry.INFERENCES.labels(policy, state).inc()
        telemetry.LATENCY.labels(policy).observe(latency)
        if self._first_token is not None:
            telemetry.FIRST_TOKEN.labels(policy).observe(self._first_token)
        if self._fallback:
            telemetry.FALLBACKS.labels(policy).inc()
        line = log.debug if state == "completed" and not self._fallback else log.warning
        line(
            "inference", policy=policy, version=self._choice.ref.version, state=state, fallback=self._fallback,
            inference_id=self._a.inference_id, replica=self._target.replica, because=error,
            duration_s=round(latency, 6),
        )  # fmt: skip
        if not self._a.admitted.store:
            return
        outcome = Outcome(
            state=state, answered=self._choice, fallback=self._fallback, replica=self._target.replica,
            engine=self._target.engine, ttft_s=self._first_token, latency_s=latency, error=error,
        )  # fmt: skip
        self._capture.write(
            lambda: record_of(
                self._a.admitted,
                self._a.decision,
                self._collected,
                outcome,
                project=self._a.project,
                inference_id=self._a.inference_id,
                episode_id=self._a.episode_id,
                occurred_at=self._a.occurred_at,
            )
        )

    # ---- towards the engine -----------------------------------------------------------------------------------------
    def _choices(self) -> Iterator[tuple[Choice, bool]]:
        yield self._a.decision.choice, False
        for choice in self._a.decision.fallbacks:
            yield choice, True

    async def _answer(self) -> None:
        """Raises Refusal where nothing could answer, UpstreamFailed after bytes have left."""
        why = "no engine is ready for it"
        for choice, fallback in self._choices():
            targets = self._fleet.targets(choice.ref, self._a.decision.route)
            done_with: set[str] = set()
            for target in [*targets, *targets[:1]][:_MOST_TRIES]:
                if target.replica in done_with:
                    continue
                self._choice, self._fallback, self._target = choice, fallback, target
                self._collected = Collected()
                with self._fleet.busy(target.replica):
                    failed = await self._ask(choice, target)
                if failed is None:
                    return
                why = failed.why
                if failed.rest:
                    self._fleet.rest(target.replica)
                if not failed.again:
                    done_with.add(target.replica)
        wanted = self._a.decision.choice.ref
        raise not_ready(f"{self._a.decision.route.policy}@v{wanted.version} cannot be served at the moment: {why}")

    async def _ask(self, choice: Choice, target: Target) -> Failure | None:
        """None when answered."""
        route = self._a.decision.route
        body = body_of(self._a.admitted.upstream, choice.ref.engine_model if choice.ref.version else route.base_model)
        path = "/v1/chat/completions" if self._a.admitted.chat else "/v1/completions"
        try:
            response = await self._session.post(target.url + path, data=body, headers=HEADERS)
        except BROKEN as error:
            return Failure(f"{target.replica}: {error!r}", again=True, rest=True)
        try:
            if response.status == 200:
                await (self._relay_stream(response) if self._a.admitted.wants.stream else self._relay_whole(response))
                return None
            text = (await response.read())[:4000]
            if response.status == 404 or response.status >= 500:
                lost = response.status == 404  # this version only
                return Failure(f"{target.replica} answered {response.status}", again=False, rest=not lost)
            raise refusal_of(response.status, text)
        except BROKEN as error:
            if self._call.started:
                raise UpstreamFailed(f"{target.replica}: {error!r}") from error
            return Failure(f"{target.replica}: {error!r}", again=True, rest=True)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()  # the engine stops at once

    # ---- towards the client -----------------------------------------------------------------------------------------
    def headers(self) -> Headers:
        return [
            (b"x-request-id", self._a.request_id.encode()),
            (b"x-headrace-inference-id", self._a.inference_id.encode()),
            (b"x-headrace-episode-id", self._a.episode_id.encode()),
            (b"x-headrace-version", b"%d" % self._choice.ref.version),
            (b"x-headrace-fallback", b"true" if self._fallback else b"false"),
        ]

    def _rewrite(self, document: dict[str, Any]) -> None:
        rename(
            document,
            inference_id=self._a.inference_id,
            model=f"{self._a.decision.route.policy}@v{self._choice.ref.version}",
            fingerprint=self._choice.ref.digest[:12] or "base",
        )

    async def _relay_whole(self, response: aiohttp.ClientResponse) -> None:
        document = document_of(await response.read())
        collect(document, self._collected)
        strip(document, self._a.admitted.wants)
        self._rewrite(document)
        self._record("completed")
        await self._capture.durable()
        await self._call.answer(200, orjson.dumps(document), self.headers())

    async def _relay_stream(self, response: aiohttp.ClientResponse) -> None:
        events = Events()
        async for chunk in response.content.iter_any():
            done, out = False, []
            for payload in events.feed(chunk):
                if payload == b"[DONE]":
                    done = True
                    break
                document = document_of(payload)
                collect(document, self._collected)
                if self._collected.error:
                    raise UpstreamFailed(self._collected.error)
                if self._first_token is None and self._collected.token_ids:
                    self._first_token = time.perf_counter() - self._began
                if strip(document, self._a.admitted.wants):
                    self._rewrite(document)
                    out.append(frame(orjson.dumps(document)))
            if out:
                await self._start_stream()
                await self._call.write(b"".join(out))
            if done:
                await self._end_stream()
                return
        raise aiohttp.ClientPayloadError("the stream ended before its end")

    async def _start_stream(self) -> None:
        if not self._call.started:
            await self._call.start(200, [*self.headers(), *_EVENT_STREAM])

    async def _end_stream(self) -> None:
        self._record("completed")
        await self._capture.durable()
        await self._start_stream()
        await self._call.write(frame(b"[DONE]"), more=False)

    async def _say_failed(self, refusal: Refusal) -> None:
        """An error answer; inside a stream one line with the error, then the end."""
        with contextlib.suppress(TimeoutError):  # a client that reads nothing does not keep its place for ever
            async with asyncio.timeout(_SAY_S):
                if not self._call.started:
                    await self._call.refuse(refusal, self.headers())
                elif self._a.admitted.wants.stream:
                    await self._call.write(frame(orjson.dumps(refusal.body())), more=False)
