"""The gateway: OpenAI's API in front of the engines, on raw ASGI."""

import asyncio
import re
import time

import aiohttp
import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_kit import tracing
from headrace_kit.clock import Clock, new_uuid7
from headrace_kit.http import is_open
from headrace_schemas import KeyChanged
from headrace_schemas.ids import episode_id, inference_id
from headrace_serving.asgi import Call, ClientGone, parse_json
from headrace_serving.capture import Capture
from headrace_serving.core.admission import admit
from headrace_serving.core.keys import check_key, need_scope
from headrace_serving.core.pins import Pins
from headrace_serving.core.refusal import Refusal
from headrace_serving.core.routing import decide, model_names
from headrace_serving.exchange import Admission, Exchange
from headrace_serving.fleet import Fleet
from headrace_serving.relay import FeedbackRelay
from headrace_serving.settings import GatewaySettings
from headrace_serving.telemetry import REFUSED

_FEEDBACK = re.compile(r"^/v1/(?:feedback(?:/[^/]+)?|chat/completions/[^/]+)$")


class Gateway:
    """The ASGI app. `health` answers what is not under /v1."""

    def __init__(
        self,
        settings: GatewaySettings,
        fleet: Fleet,
        capture: Capture,
        relay: FeedbackRelay,
        health: ASGIApp,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._capture = capture
        self._relay = relay
        self._health = health
        self._clock = clock
        self._pins = Pins(settings.episodes)
        self._running: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """One for the life of the process. Engines close idle connections after 5 s, so we do before."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=4.0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout_s),
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        """Ends what is still running; each writes its record."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        self._capture.spool.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_open(scope["path"]):
            await self._health(scope, receive, send)
            return
        call = Call(scope, receive, send)
        tracing.enter(call.headers.get("traceparent"))
        request_id = call.request_id(tracing.current_trace_id())
        try:
            await self._dispatch(call, request_id)
        except Refusal as refusal:
            REFUSED.labels(refusal.code).inc()
            await call.refuse(refusal, [(b"x-request-id", request_id.encode())])
        except ClientGone:
            pass

    async def _dispatch(self, call: Call, request_id: str) -> None:
        method_and_path = f"{call.method} {call.path}"
        if method_and_path == "POST /v1/chat/completions":
            await self._infer(call, request_id, chat=True)
        elif method_and_path == "POST /v1/completions":
            await self._infer(call, request_id, chat=False)
        elif call.method == "GET" and (call.path == "/v1/models" or call.path.startswith("/v1/models/")):
            await self._models(call, request_id)
        elif call.method in ("POST", "GET") and _FEEDBACK.match(call.path):
            key = self._key(call, "feedback")
            await self._relay.relay(call, key, self.session(), request_id)
        elif call.path in ("/v1/chat/completions", "/v1/completions", "/v1/models"):
            raise Refusal(405, "method_not_allowed", f"{call.path} is not asked with {call.method}")
        else:
            raise Refusal(
                404,
                "not_found",
                "there is no such path: /v1/chat/completions, /v1/completions, /v1/models and /v1/feedback are served",
            )

    def _key(self, call: Call, *scopes: str) -> KeyChanged:
        key = check_key(call.headers.get("authorization"), self._fleet.keys.get)
        need_scope(key, *scopes)
        return key

    async def _models(self, call: Call, request_id: str) -> None:
        key = self._key(call, "inference", "evaluate", "feedback")
        cards = [
            {
                "id": name,
                "object": "model",
                "created": int(route.occurred_at.timestamp()),
                "owned_by": route.project,
                "parent": route.base_model,
            }
            for name, route in model_names(self._fleet.all_routes(), key)
        ]
        headers = [(b"x-request-id", request_id.encode())]
        wanted = call.path.removeprefix("/v1/models").removeprefix("/")
        if not wanted:
            await call.answer(200, orjson.dumps({"object": "list", "data": cards}), headers)
            return
        for card in cards:
            if card["id"] == wanted:
                await call.answer(200, orjson.dumps(card), headers)
                return
        raise Refusal(404, "model_not_found", f"there is no model {wanted[:100]!r}; see /v1/models", "model")

    async def _infer(self, call: Call, request_id: str, *, chat: bool) -> None:
        began = time.perf_counter()
        key = self._key(call, "inference", "evaluate")
        body = parse_json(await call.body(self._settings.max_body_bytes))
        admitted = admit(body, call.headers, chat=chat)
        if len(self._running) >= self._settings.max_in_flight:
            raise Refusal(
                429,
                "overloaded",
                f"{self._settings.max_in_flight} requests are in flight: come again",
                kind="rate_limit_error",
                headers=(("retry-after", "1"),),
            )
        episode = admitted.episode_id or episode_id(new_uuid7())
        policy = admitted.model.policy
        decision = decide(
            admitted.model,
            self._fleet.all_routes(),
            key,
            sticky=admitted.actor or episode,
            pinned=self._pins.get(policy, episode) if admitted.episode_id else None,
        )
        if admitted.model.version is None and admitted.model.alias is None:
            self._pins.put(policy, episode, decision.choice.ref.version)
        inference = inference_id(episode, new_uuid7(), chat=chat)
        admission = Admission(
            admitted=admitted,
            decision=decision,
            project=key.project,
            inference_id=inference,
            episode_id=episode,
            request_id=call.request_id(inference),
            occurred_at=self._clock.now(),
            began=began,
        )
        exchange = Exchange(admission, call, self._fleet, self._capture, self.session(), self._settings.timeout_s)
        supervisor = exchange.begin()
        self._running.add(supervisor)
        supervisor.add_done_callback(self._running.discard)
        leaving = asyncio.create_task(call.gone())
        try:
            # Both: a supervisor that a bug ended has answered nothing, and its client would wait for ever.
            await asyncio.wait((supervisor, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            exchange.abort()
        await supervisor
