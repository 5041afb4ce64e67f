"""The only place that builds adapters and wires them: the gateway, and the agent."""

from collections.abc import Callable
from functools import partial

import aiohttp
from starlette.applications import Starlette

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock, SystemClock
from headrace_kit.kafka import KafkaBus
from headrace_kit.objects import Objects, S3Objects
from headrace_kit.service import Service
from headrace_kit.settings import ObjectSettings
from headrace_kit.spool import Spool
from headrace_serving.agent import Agent
from headrace_serving.capture import Capture
from headrace_serving.engine import Engine
from headrace_serving.fleet import Fleet
from headrace_serving.gateway import Gateway
from headrace_serving.relay import FeedbackRelay
from headrace_serving.settings import AgentSettings, GatewaySettings, ServingPlatform


def build_gateway(
    settings: GatewaySettings,
    platform: ServingPlatform,
    *,
    bus: Bus | None = None,
    clock: Clock | None = None,
) -> Service:
    """The gateway. It serves with the bus away: readiness asks for a route and a key, not for Kafka."""
    bus = bus or KafkaBus(platform.kafka, "headrace-gateway")
    clock = clock or SystemClock()
    prefix = platform.topics.prefix
    service = Service("gateway", bus=bus, prefix=prefix, clock=clock)
    spool = Spool(
        settings.data_dir / "spool",
        segment_bytes=settings.segment_bytes,
        quota_bytes=settings.spool_bytes,
        fsync=settings.fsync,
    )
    capture = Capture(spool, prefix)
    fleet = Fleet(bus, prefix, clock, settings.data_dir / "state", settings.static_engines(), settings.rest_s)
    relay = FeedbackRelay(
        platform.places.feedback_url,
        platform.process.admin_token.get_secret_value(),
        settings.feedback_timeout_s,
        settings.max_body_bytes,
    )
    del service.checks["bus"]

    async def knows_the_world() -> str | None:
        if not any(fleet.keys.values()):
            return "no API key is known yet"
        return None if fleet.all_routes() else "no policy is known yet"

    service.checks["state"] = knows_the_world
    gateway = Gateway(settings, fleet, capture, relay, Starlette(routes=[*service.health()]), clock)
    service.app = gateway
    for name, follower in fleet.followers().items():
        service.tasks[name] = follower.run
    service.tasks["spool"] = partial(capture.run, bus)
    service.closers.append(gateway.close)
    return service


def build_agent(
    settings: AgentSettings,
    platform: ServingPlatform,
    *,
    bus: Bus | None = None,
    objects: Objects | None = None,
    clock: Clock | None = None,
    session: Callable[[], aiohttp.ClientSession] = aiohttp.ClientSession,
) -> Service:
    """The agent beside one engine."""
    bus = bus or KafkaBus(platform.kafka, "headrace-agent")
    clock = clock or SystemClock()
    service = Service("agent", bus=bus, prefix=platform.topics.prefix, clock=clock)
    engine = Engine(settings.engine_url, session, settings.engine_timeout_s)
    agent = Agent(
        settings,
        engine,
        bus,
        objects or S3Objects(ObjectSettings()),
        clock,
        platform.topics.prefix,
        platform.places.models_dir,
    )
    service.checks["engine"] = agent.engine_problem
    service.tasks |= {"routes": agent.routes.run, "watch": agent.watch, "work": agent.work, "report": agent.report}
    service.app = Starlette(routes=[*service.health()])
    service.closers.append(engine.close)
    return service
