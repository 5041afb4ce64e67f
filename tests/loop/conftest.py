"""All services in one event loop, on a bus in memory, with a real PostgreSQL, a fake engine and a trainer without torch.

HTTP is real, on loopback: apps, the gateway and the evaluation service talk to each other as they do in production.
"""

import asyncio
import contextlib
import secrets
from pathlib import Path

import asyncpg
import httpx2
import pytest
import uvicorn
from openai import AsyncOpenAI
from sqlalchemy.engine import make_url

import headrace_evaluation.app
import headrace_feedback.app
import headrace_registry.app
import headrace_reward.app
import headrace_serving.app
import headrace_training.app
from headrace_evaluation.settings import EvaluationSettings
from headrace_feedback.settings import FeedbackSettings
from headrace_kit.migrate import upgrade
from headrace_kit.settings import DatabaseSettings, KafkaSettings, PlatformSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus, MemoryObjects
from headrace_local import ports
from headrace_registry.settings import RegistrySettings
from headrace_reward.settings import RewardSettings
from headrace_serving.settings import AgentSettings, GatewaySettings, PlacesSettings, ServingPlatform
from headrace_serving.testing import FakeEngine, adapter_file
from headrace_training.core.dataset import ExitReason, RunResult
from headrace_training.rundir import ADAPTER_FILE, digest_of, read_run, write_atomically
from headrace_training.settings import TrainingSettings

ADMIN = "an-admin-token-for-tests"
KEY = "hr_abcdefgh_0123456789abcdefghijklmnop"
JUDGE_KEY = "hr_evaluate_0123456789abcdefghijklmnop"
STATEFUL = ("feedback", "reward", "training", "registry", "evaluation")


class TeachableTrainer:
    """Learns what users wrote: the adapter answers with the newest correction, or with its parent's answer."""

    def __init__(self, teach=None) -> None:
        self.teach = teach
        self.runs = []

    async def run(self, folder: Path) -> int:
        manifest, samples = read_run(folder)
        self.runs.append((manifest, samples))
        said = [s.demonstration for s in samples if s.demonstration]
        answer = self.teach or (said[-1] if said else "I learned nothing.")
        data = adapter_file(answer, base_model=manifest.base_model, seed=int(manifest.digest[:6], 16))
        write_atomically(folder / "adapter" / ADAPTER_FILE, data)
        result = RunResult(
            run_id=manifest.run_id,
            fencing_token=manifest.fencing_token,
            exit_reason=ExitReason.COMPLETED,
            adapter_sha256=digest_of(data),
            adapter_bytes=len(data),
            steps=1,
            metrics={"loss": 0.5},
        )
        write_atomically(folder / "result.json", result.model_dump_json().encode())
        return 0


class Loop:
    """The running loop and the clients that a user of it has."""

    def __init__(self, folder: Path, database_url: str, engine: FakeEngine) -> None:
        self.folder, self.engine = folder, engine
        self.broker, self.objects, self.trainer = MemoryBroker(), MemoryObjects(), TeachableTrainer()
        self.ports = ports.choose([*STATEFUL, "gateway", "agent"])
        self.platform = PlatformSettings(
            kafka=KafkaSettings(bootstrap="memory:1"),
            topics=TopicSettings(),
            database=DatabaseSettings(url=database_url, pool_size=4),
            process=ProcessSettings(admin_token=ADMIN),
        )
        self.serving = ServingPlatform(
            kafka=self.platform.kafka,
            topics=self.platform.topics,
            process=self.platform.process,
            places=PlacesSettings(feedback_url=self.url("feedback"), models_dir=None),
        )
        self.services, self.servers = {}, {}
        self.http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20)
        self.client = AsyncOpenAI(base_url=self.url("gateway") + "/v1", api_key=KEY, max_retries=0)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def bus(self) -> MemoryBus:
        return MemoryBus(self.broker)

    def build(self, name: str):
        match name:
            case "feedback":
                return headrace_feedback.app.build(FeedbackSettings(), self.platform, bus=self.bus())
            case "reward":
                return headrace_reward.app.build(RewardSettings(), self.platform, bus=self.bus())
            case "registry":
                return headrace_registry.app.build(RegistrySettings(), self.platform, bus=self.bus())
            case "training":
                settings = TrainingSettings(work_dir=self.folder / "runs", look_every_s=0.05, lease_s=2.0)
                return headrace_training.app.build(
                    settings, self.platform, bus=self.bus(), objects=self.objects, trainer=self.trainer
                )
            case "evaluation":
                settings = EvaluationSettings(
                    key="MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", api_key=JUDGE_KEY, poll_s=0.05
                )
                places = headrace_evaluation.settings.PlacesSettings(gateway_url=self.url("gateway"))
                return headrace_evaluation.app.build(settings, self.platform, places, bus=self.bus())
            case "gateway":
                settings = GatewaySettings(data_dir=self.folder / "gateway")
                return headrace_serving.app.build_gateway(settings, self.serving, bus=self.bus())
            case _:
                settings = AgentSettings(
                    engine_url=self.engine.url,
                    replica="replica-1",
                    cache_dir=self.folder / "adapters",
                    poll_s=0.1,
                    report_s=1.0,
                    grace_s=0.1,
                )
                return headrace_serving.app.build_agent(settings, self.serving, bus=self.bus(), objects=self.objects)

    async def start(self, *names: str) -> None:
        for name in names:
            service = self.services[name] = self.build(name)
            config = uvicorn.Config(
                service.app, port=self.ports[name], log_config=None, access_log=False, lifespan="off"
            )
            server = uvicorn.Server(config)
            server.install_signal_handlers = lambda: None
            await service.start()
            self.servers[name] = (server, asyncio.create_task(server._serve()))
        for name in names:
            server, task = self.servers[name]
            while not server.started:
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)

    async def stop(self, *names: str) -> None:
        for name in names or tuple(self.services):
            server, task = self.servers.pop(name)
            server.should_exit = True
            server.force_exit = True
            await self.services.pop(name).stop()
            await task

    async def get(self, service: str, path: str) -> dict:
        answer = await self.http.get(self.url(service) + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ask(self, question: str, **options):
        model = options.pop("model", "support")
        raw = await self.client.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": question}], **options
        )
        return raw.headers, raw.parse()

    async def say(self, **feedback) -> httpx2.Response:
        return await self.http.post(
            self.url("gateway") + "/v1/feedback", json=feedback, headers={"Authorization": f"Bearer {KEY}"}
        )

    async def until(self, what, seconds: float = 15.0):
        last = None
        for _ in range(int(seconds / 0.05)):
            try:
                last = await what()
            except (AssertionError, httpx2.HTTPError) as error:
                last = None
                self.trouble = error
            if last:
                return last
            await asyncio.sleep(0.05)
        sick = {name: s.alive() for name, s in self.services.items() if s.alive()}
        raise AssertionError(f"not reached in {seconds} s: {what.__name__}; {sick}; {getattr(self, 'trouble', '')}")


POLICY = {
    "policy": "support",
    "base_model": "fake-base",
    "reward": {
        "parts": [
            {"name": "user", "kind": "feedback", "weight": 1.0},
            {"name": "short", "kind": "rule", "weight": 0.25, "rule": {"max_words": 12}},
        ]
    },
    "train": {"trigger": {"events": 1, "min_events": 1}},
    "gate": {"suite": "support-private"},
}


def suite(cases: int = 24) -> dict:
    """The company's own evals: the answer is short and says where to send things."""
    return {
        "max_tokens": 32,
        "cases": [
            {
                "id": f"c{n}",
                "prompt": f"How do I return item {n}?",
                "rule": {"max_words": 8, "must_contain": ["return"]},
            }
            for n in range(cases)
        ],
    }


@pytest.fixture(scope="session")
def migrated(postgres_url):
    """A database with every service's schema, to copy from."""

    async def make() -> str:
        admin = await asyncpg.connect(postgres_url)
        await admin.execute("CREATE DATABASE migrated")
        await admin.close()
        url = make_url(postgres_url).set(database="migrated").render_as_string(hide_password=False)
        for name in STATEFUL:
            await upgrade(url, f"headrace_{name}")
        return "migrated"

    return asyncio.run(make())


@pytest.fixture
async def database(postgres_url, migrated):
    name = f"loop{secrets.token_hex(5)}"
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE {migrated}')
    yield make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.close()


@pytest.fixture
async def loop(tmp_path, database):
    async with FakeEngine() as engine:
        world = Loop(tmp_path, database, engine)
        try:
            await world.start(*STATEFUL, "gateway", "agent")
            for secret, scopes in ((KEY, ["inference", "feedback"]), (JUDGE_KEY, ["evaluate"])):
                made = await world.http.post(
                    world.url("registry") + "/v1/keys", json={"name": "test", "scopes": scopes, "secret": secret}
                )
                assert made.status_code in (200, 201), made.text
            pushed = await world.http.put(world.url("evaluation") + "/v1/suites/support-private", json=suite())
            assert pushed.status_code == 201, pushed.text
            applied = await world.http.put(world.url("registry") + "/v1/policies/support", json=POLICY)
            assert applied.status_code == 201, applied.text

            async def serves():
                models = await world.client.models.list()
                return models.data

            with contextlib.suppress(AssertionError):
                await world.until(_quietly(serves), 10)
            yield world
        finally:
            await world.stop()
            await world.http.aclose()
            await world.client.close()


def _quietly(call):
    from openai import OpenAIError

    async def tried():
        try:
            return await call()
        except OpenAIError as error:
            raise AssertionError(repr(error)) from error

    return tried
