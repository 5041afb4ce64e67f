"""The agent beside one engine: brings it to what the routes want, proves each adapter, and reports the whole state.

Three tasks: `watch` looks at the engine, `work` loads, proves and unloads, `report` tells Kafka. An adapter is ready
only while the engine lists it and after the probes have passed in this engine's life.
"""

import asyncio
import contextlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.errors import Retryable
from headrace_kit.follower import Follower
from headrace_kit.objects import Objects
from headrace_kit.records import encode
from headrace_schemas import AdapterObserved, RouteChanged, topic_of
from headrace_schemas.release import Probe
from headrace_schemas.traffic import EngineFacts
from headrace_serving import telemetry
from headrace_serving.adapter_store import AdapterStore
from headrace_serving.base_facts import BaseFacts, read_base
from headrace_serving.core.adapter import BadAdapter
from headrace_serving.core.desired import Held, Wanted, to_unload, wanted
from headrace_serving.core.probes import MIN_DELTA, finite, largest_change, long_prompt, short_prompts
from headrace_serving.engine import Engine, EngineRefused, EngineState
from headrace_serving.settings import AgentSettings

log = structlog.get_logger()
_OURS = re.compile(r"^.+@v[0-9]+-[0-9a-f]{12}$")
_CACHE_S = 24 * 3600.0
_MOST_ATTEMPTS = 2


class Agent:
    """See the module. `watch`, `work`, `report` and `routes.run` run until cancelled."""

    def __init__(
        self, settings: AgentSettings, engine: Engine, bus: Bus, objects: Objects, clock: Clock, prefix: str,
        models: Path | None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._engine = engine
        self._bus = bus
        self._clock = clock
        self._topic = topic_of(AdapterObserved).name(prefix)
        self._models = models
        self._store = AdapterStore(settings.cache_dir, objects, settings.max_rank, settings.max_adapter_bytes)
        self._replica = settings.replica or _default_name(settings.engine_url)
        self._held: dict[str, Held] = {}
        self._unwanted_since: dict[str, float] = {}
        self._seen: EngineState | None = None  # None while the engine is away
        self._problem = "the engine has not been seen yet"
        self._base_model = ""
        self._facts = BaseFacts()
        self._version = ""
        self._base_logprobs: list[list[float]] | None = None
        self._sequence = 0
        self._to_work = asyncio.Event()
        self._to_report = asyncio.Event()
        self._settled = asyncio.Event()
        self.routes = Follower(
            bus, RouteChanged, prefix, lambda e: e.epoch,
            copy=settings.cache_dir / "routes.json", on_change=self._on_route,
        )  # fmt: skip

    async def _on_route(self, _: RouteChanged) -> None:
        self._to_work.set()

    async def engine_problem(self) -> str | None:
        return None if self._seen is not None else self._problem

    # ---- looking at the engine --------------------------------------------------------------------------------------
    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._settings.poll_s)

    async def look(self) -> None:
        """One look at the engine; what changed is reported at once."""
        try:
            state = await self._engine.state()
            if self._seen is None:
                await self._welcome(state)
        except (Retryable, EngineRefused) as error:
            if self._seen is not None or not self._settled.is_set():
                log.warning("the engine is away", error=str(error))
                self._seen, self._problem = None, str(error)
                self._settled.set()
                self._to_report.set()
            return
        self._seen = state
        for name, held in self._held.items():
            if held.state == "ready" and name not in state.adapters:
                log.warning("the engine has lost an adapter", engine_model=name)
                held.state = "loading"
                self._to_work.set()
                self._to_report.set()

    async def _welcome(self, state: EngineState) -> None:
        """A new or restarted engine: nothing is proved on it."""
        self._version = await self._engine.version()
        if state.base_model != self._base_model:
            self._facts = await asyncio.to_thread(read_base, self._models, state.base_model)
            self._base_model = state.base_model
        self._base_logprobs = None
        for held in self._held.values():
            if held.state == "ready":
                held.state = "loading"
        log.info("the engine is there", base_model=state.base_model, version=self._version)
        self._to_work.set()
        self._to_report.set()

    # ---- bringing it to what is wanted ------------------------------------------------------------------------------
    async def work(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.poll_s):  # wait_for can swallow a cancellation (Python 3.11)
                    await self._to_work.wait()
            self._to_work.clear()
            try:
                await self.reconcile()
            except Retryable as error:
                log.warning("the replica is not yet as wanted", error=str(error))
            except EngineRefused as error:
                log.error("the engine refuses", error=str(error))  # noqa: TRY400 (its words say it all)
            if self._seen is not None and (self.routes.caught_up.is_set() or any(self.routes.values())):
                self._settled.set()

    async def reconcile(self) -> None:
        """One step: load and prove what is wanted, unload what is not. Raises Retryable, EngineRefused."""
        if self._seen is None:
            return
        desired = wanted(self.routes.values(), self._base_model)
        now = self._clock.monotonic()
        for name, want in desired.items():
            self._unwanted_since.pop(name, None)
            held = self._held.setdefault(name, Held(want, since=now))
            held.want = want
            if held.state == "gone":
                held.state, held.since = "loading", now
        for name in self._seen.adapters:
            if name not in desired and _OURS.match(name):
                self._unwanted_since.setdefault(name, now)
        for name in [n for n in self._held if n not in desired and n not in self._seen.adapters]:
            self._held.pop(name)
            self._to_report.set()
        missing = [n for n in desired if self._held[n].state == "loading"]
        await self._unload(desired, [n for n in missing if n not in self._seen.adapters])
        for name in missing:
            await self._bring(name)
        keep = {h.want.ref.digest for h in self._held.values()}
        await asyncio.to_thread(self._store.forget, keep, _CACHE_S, self._clock.now().timestamp())

    async def _unload(self, desired: dict[str, Wanted], missing: list[str]) -> None:
        assert self._seen is not None
        ours = [n for n in self._seen.adapters if _OURS.match(n)]
        names = to_unload(
            ours, desired, self._unwanted_since,
            now=self._clock.monotonic(), grace_s=self._settings.grace_s,
            room_needed=len(ours) + len(missing) - self._settings.max_adapters,
        )  # fmt: skip
        for name in names:
            await self._engine.unload(name)
            self._unwanted_since.pop(name, None)
            self._seen = EngineState(self._seen.base_model, self._seen.max_model_len, self._seen.adapters - {name})
            log.info("adapter unloaded", engine_model=name)
            if name in self._held:
                self._held[name].state = "gone"
                self._to_report.set()

    async def _bring(self, name: str) -> None:
        """From wanted to ready or failed. Raises Retryable where it is nobody's fault."""
        held = self._held[name]
        self._to_report.set()
        try:
            folder = await self._store.fetch(held.want.ref, self._base_model, self._facts.shapes)
        except BadAdapter as reason:
            self._failed(name, str(reason))
            return
        listed = (await self._engine.state()).adapters
        if name not in listed and len([n for n in listed if _OURS.match(n)]) >= self._settings.max_adapters:
            log.warning("no room for an adapter", engine_model=name, max_adapters=self._settings.max_adapters)
            return
        length = self._seen.max_model_len if self._seen else None
        short = short_prompts(length)
        if self._base_logprobs is None:
            self._base_logprobs = await self._engine.prompt_logprobs(self._base_model, short)
        try:
            if name not in listed:
                await self._engine.load(name, folder)
            adapted = await self._engine.prompt_logprobs(name, short)
            after_long = await self._engine.next_logprob(name, long_prompt(length))
        except EngineRefused as reason:
            await self._give_up(name, str(reason))
        except Retryable as reason:
            held.attempts += 1
            if held.attempts >= _MOST_ATTEMPTS:
                self._failed(
                    name, f"the engine broke off {held.attempts} times while this adapter was proved: {reason}"
                )
            raise
        else:
            await self._judge(name, adapted, after_long, self._base_logprobs)

    async def _judge(self, name: str, adapted: list[list[float]], after_long: float, base: list[list[float]]) -> None:
        if not finite([*adapted, [after_long]]):
            await self._give_up(name, "the adapter gives log-probabilities that are not finite")
            return
        delta = largest_change(adapted, base)
        if delta < MIN_DELTA:
            await self._give_up(name, f"the adapter changes nothing: largest change {delta:.2g} nats", finite_=True)
            return
        held = self._held[name]
        seconds = max(self._clock.monotonic() - held.since, 0.0)
        held.state, held.attempts = "ready", 0
        held.probe = Probe(finite=True, differs_from_base=True, max_abs_logprob_delta=delta, seconds=seconds)
        if self._seen is not None:
            self._seen = EngineState(self._seen.base_model, self._seen.max_model_len, self._seen.adapters | {name})
        self._to_report.set()
        log.info("adapter proved", engine_model=name, max_abs_logprob_delta=round(delta, 4), seconds=round(seconds, 3))

    async def _give_up(self, name: str, reason: str, *, finite_: bool = False) -> None:
        self._failed(name, reason, finite_=finite_)
        with contextlib.suppress(EngineRefused):  # it may never have been loaded
            await self._engine.unload(name)

    def _failed(self, name: str, reason: str, *, finite_: bool = False) -> None:
        held = self._held[name]
        held.state = "failed"
        seconds = max(self._clock.monotonic() - held.since, 0.0)
        held.probe = Probe(finite=finite_, differs_from_base=False, seconds=seconds, reason=reason)
        self._to_report.set()
        log.error("adapter refused", engine_model=name, because=reason)

    # ---- telling ----------------------------------------------------------------------------------------------------
    async def report(self) -> None:
        """On change and every `report_s` seconds. After a restart the last report stands until the first pass over the
        engine is through: it still serves what it had.
        """
        await self._settled.wait()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.report_s):
                    await self._to_report.wait()
            self._to_report.clear()
            event = self.observed()
            try:
                await self._bus.publish([encode(event, topic=self._topic, source="serving")])
            except Retryable as error:
                log.warning("the report is not published yet", error=str(error))
                await asyncio.sleep(1.0)
                self._to_report.set()
                continue
            for adapter in event.adapters:
                held = self._held.get(adapter.engine_model)  # `work` may have dropped it while we published
                if adapter.state == "gone" and held is not None and held.state == "gone":
                    del self._held[adapter.engine_model]

    def observed(self) -> AdapterObserved:
        """The whole state of this replica."""
        now = self._clock.now()
        self._sequence = max(self._sequence + 1, int(now.timestamp() * 1_000_000))
        states = [held.state for held in self._held.values()]
        for state in ("loading", "ready", "failed"):
            telemetry.ADAPTERS.labels(state).set(states.count(state))
        telemetry.ENGINE_UP.set(self._seen is not None)
        return AdapterObserved(
            occurred_at=now,
            replica=self._replica,
            sequence=self._sequence,
            url=(self._settings.advertised_url or self._settings.engine_url).rstrip("/"),
            healthy=self._seen is not None,
            base_model=self._base_model,
            engine=EngineFacts(
                base_model=self._base_model,
                engine_version=self._version,
                dtype=self._settings.dtype or self._facts.dtype,
                chat_template_hash=self._facts.chat_template_hash,
                tokenizer_hash=self._facts.tokenizer_hash,
            ),
            adapters=tuple(held.as_state() for held in self._held.values()),
        )


def _default_name(engine_url: str) -> str:
    """Host name of this machine and the engine's port."""
    import socket

    return f"{socket.gethostname()}-{urlsplit(engine_url).port or 80}"
