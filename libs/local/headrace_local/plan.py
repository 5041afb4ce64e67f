"""From the user's options to the processes of the stack: what is started, with what, after what."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace_local import broker, engine, models, objects, ports, postgres, services
from headrace_local.credentials import Credentials
from headrace_local.objects import S3Settings
from headrace_local.options import Layout, OptionError, StackOptions
from headrace_local.spec import ProcessSpec
from headrace_local.state import BUCKET, LOG_BUCKET, StackState

DATABASES = ("registry", "feedback", "reward", "evaluation", "training", "console")
"""Services with a schema of their own, where they have migrations."""


def first_state(layout: Layout, options: StackOptions, remembered: Mapping[str, int]) -> StackState:
    """The stack before anything has started: ports chosen, model found.

    Raises ModelError for a bad model, and OptionError where the data belong to another kind of broker.
    """
    _keep_to_the_broker(layout, options)
    names = ["postgres", *objects.PORTS, *options.services]
    if options.broker == "embedded":
        names.append("broker")
    if options.broker == "kafka":
        names += ["broker", "broker-controller"]
    if options.engine == "vllm":
        names.append("vllm")
    chosen = ports.choose(names, remembered)
    model = models.locate(options.model)
    return StackState(
        root=layout.root,
        phase="starting",
        options=options,
        ports=chosen,
        base_model=model.name,
        models_dir=str(model.parent),
        kafka_bootstrap=f"127.0.0.1:{chosen['broker']}" if "broker" in chosen else options.broker,
    )


def _keep_to_the_broker(layout: Layout, options: StackOptions) -> None:
    """Consumers keep their offsets in PostgreSQL: on another broker's topics these would skip or never come."""
    if not layout.broker_kind.exists():
        return
    kind = layout.broker_kind.read_text().strip()
    if kind != options.broker_kind:
        raise OptionError(
            f"The data in {layout.home} belong to the {kind} broker: set HEADRACE_BROKER to it, or remove the folder."
        )


def specs(state: StackState, credentials: Credentials) -> list[ProcessSpec]:
    """Every process and step of the stack, the slow engine first.

    Raises FileNotFoundError, its message a sentence with the mend, when a part is not installed.
    """
    planned = [*_engine(state), *_parts(state, credentials)]
    if state.options.services:
        preparation = _preparation(state, credentials)
        planned += preparation
        planned += services.specs(state, credentials, after=("s3", *(spec.name for spec in preparation)))
    state.layout.data.mkdir(parents=True, exist_ok=True)
    state.layout.broker_kind.write_text(f"{state.options.broker_kind}\n")
    return planned


def _engine(state: StackState) -> list[ProcessSpec]:
    if state.options.engine == "none":
        return []
    assert state.base_model
    assert state.models_dir
    model = Path(state.models_dir) / state.base_model
    prepare = ProcessSpec(
        name="model",
        argv=(sys.executable, "-m", "headrace_local.models", str(model)),
        once=True,
        ready_timeout_s=900,
    )
    return [prepare, engine.spec(model, state.ports["vllm"], after=("model",))]


def _parts(state: StackState, credentials: Credentials) -> list[ProcessSpec]:
    data = state.layout.data
    s3 = S3Settings(f"127.0.0.1:{state.ports['s3']}", credentials.s3_access_key, credentials.s3_secret_key, BUCKET)
    kafka: tuple[ProcessSpec, ...] = ()
    if state.options.broker == "embedded":
        kafka = (broker.embedded(state.ports["broker"], s3, LOG_BUCKET),)
    elif state.options.broker == "kafka":
        pair = (state.ports["broker"], state.ports["broker-controller"])
        kafka = broker.apache(broker.kafka_home(), data / "kafka", [pair])
    return [
        objects.spec(data / "s3", state.ports, s3, [BUCKET, LOG_BUCKET]),
        *postgres.specs(
            data / "postgres", state.ports["postgres"], credentials.postgres_password, state.layout.postgres_password
        ),
        *kafka,
    ]


def _preparation(state: StackState, credentials: Credentials) -> list[ProcessSpec]:
    """Topics and schemas, before any service starts; both do nothing where all is there already."""
    env = services.shared_env(state, credentials)
    topics = ProcessSpec(
        name="topics",
        argv=(sys.executable, "-m", "headrace_kit.create_topics"),
        env=env,
        after=("broker",) if "broker" in state.ports else (),
        once=True,
        ready_timeout_s=120,
    )
    migrations = ProcessSpec(
        name="migrations",
        argv=(sys.executable, "-m", "headrace_kit.migrate", *migrated(state.options)),
        env=env,
        after=("postgres",),
        once=True,
        ready_timeout_s=120,
    )
    return [topics, migrations]


def migrated(options: StackOptions) -> list[str]:
    """The packages of the chosen services that have migrations."""
    packages = [f"headrace_{name}" for name in DATABASES if name in options.services]
    return [name for name in packages if (folder := _package_folder(name)) and (folder / "migrations").is_dir()]


def _package_folder(package: str) -> Path | None:
    found = importlib.util.find_spec(package)
    return Path(found.origin).parent if found and found.origin else None
