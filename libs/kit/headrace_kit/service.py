"""One shape for every process: an HTTP side, a bus side, long-running tasks, and an end that loses nothing.

`app.py` of a service builds a `Service`; `__main__` runs it; tests start it inside their own loop.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

import structlog
import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock, SystemClock
from headrace_kit.consumer import Consumer
from headrace_kit.database import Database
from headrace_kit.errors import Retryable
from headrace_kit.http import Check, health_routes
from headrace_kit.outbox import Relay
from headrace_kit.settings import HttpSettings
from headrace_kit.work import Work

log = structlog.get_logger()
Task = Callable[[], Awaitable[None]]


class Service:
    """Everything that one process runs. `health` are routes to mount; `app` is what HTTP serves."""

    def __init__(
        self,
        name: str,
        *,
        bus: Bus,
        database: Database | None = None,
        prefix: str = "headrace",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.bus = bus
        self.database = database
        self.prefix = prefix
        self.clock: Clock = clock or SystemClock()
        self.app: ASGIApp | None = None
        self.tasks: dict[str, Task] = {}
        self.checks: dict[str, Check] = {}
        self.closers: list[Task] = []
        self._running: dict[str, asyncio.Task[None]] = {}
        self._dead: str | None = None
        if database is not None:
            self.relay = Relay(database, bus)
            self.consumer = Consumer(name, bus, database, self.relay, self.clock, prefix)
            self.tasks["outbox"] = self.relay.run
            self.checks["database"] = database.ping
            self.closers.append(database.close)
        self.checks["bus"] = self._bus_check
        self._bus_ready = False

    # ---- for app.py -------------------------------------------------------------------------------------------------
    def health(self) -> Sequence[BaseRoute]:
        """Routes /health/live, /health/ready and /metrics."""
        return health_routes(self.checks, self.alive)

    def unit_of_work(self) -> "UnitOfWork":
        """`async with service.unit_of_work() as work:` for HTTP calls and workers: commits, then wakes the outbox."""
        return UnitOfWork(self)

    # ---- life -------------------------------------------------------------------------------------------------------
    def alive(self) -> str | None:
        """None, or why this process should be restarted."""
        if self._dead:
            return self._dead
        return self.consumer.problem() if self.database is not None else None

    async def _bus_check(self) -> str | None:
        return None if self._bus_ready else "the bus is not connected yet"

    async def start(self) -> None:
        """Start tasks and the bus; a broker that is away is waited for in the background."""
        self._spawn("bus", self._connect)
        for name, task in self.tasks.items():
            self._spawn(name, task)

    async def _connect(self) -> None:
        delay = 0.2
        while True:
            try:
                await self.bus.start()
            except Retryable as error:
                log.warning("the bus is away", error=str(error), again_in_s=delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
            else:
                self._bus_ready = True
                return

    def _spawn(self, name: str, task: Task) -> None:
        async def guarded() -> None:
            try:
                await task()
            except asyncio.CancelledError:
                raise
            except Exception as bug:  # a task that dies takes the process's health with it
                log.exception("a task died", task=name)
                self._dead = f"the task {name} died: {bug!r}"

        self._running[name] = asyncio.create_task(guarded(), name=f"{self.name}.{name}")

    async def stop(self) -> None:
        """Stop taking, finish what is in flight, flush, close."""
        self._running.pop("bus").cancel()
        for name, task in self._running.items():
            if name != "outbox":
                task.cancel()
        await asyncio.gather(*(t for n, t in self._running.items() if n != "outbox"), return_exceptions=True)
        await self.bus.stop()
        if self.database is not None:
            await self.consumer.close()
            self._running["outbox"].cancel()
            await asyncio.gather(self._running["outbox"], return_exceptions=True)
        for close in self.closers:
            await close()

    async def serve(self, http: HttpSettings) -> None:
        """Until SIGTERM or SIGINT, or until a task died (then the exit code is 1)."""
        assert self.app is not None
        server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                host=http.host,
                port=http.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=10,
                server_header=False,
            )
        )
        await self.start()
        watch = asyncio.create_task(self._watch(server))
        try:
            await server.serve()
        finally:
            watch.cancel()
            await self.stop()
        if self._dead:
            log.error("ends because a task died", because=self._dead)
            os._exit(1)

    async def _watch(self, server: uvicorn.Server) -> None:
        while self._dead is None:
            await asyncio.sleep(0.5)
        server.should_exit = True


class UnitOfWork:
    """A transaction with what it publishes, outside a consumer."""

    def __init__(self, service: Service) -> None:
        assert service.database is not None
        self._service = service
        self._begin = service.database.begin()

    async def __aenter__(self) -> Work:
        session = await self._begin.__aenter__()
        self._work = Work(session, self._service.clock, self._service.name, self._service.prefix)
        return self._work

    async def __aexit__(self, kind, error, trace) -> bool | None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        published = False
        if kind is None:
            try:
                published = await self._work.flush()
            except BaseException as failed:  # the transaction ends here too, or it would keep its connection
                await self._begin.__aexit__(type(failed), failed, failed.__traceback__)
                raise
        done = await self._begin.__aexit__(kind, error, trace)
        if published:
            self._service.relay.wake()
        return done
