"""The services of the stack: command, environment, what each waits for."""

from __future__ import annotations

import signal
import sys

from headrace_local import engine, postgres
from headrace_local.credentials import Credentials
from headrace_local.objects import S3Settings
from headrace_local.probes import HttpAnswers
from headrace_local.spec import ProcessSpec
from headrace_local.state import BUCKET, StackState

COMMANDS = {
    "registry": ("headrace_registry",),
    "feedback": ("headrace_feedback",),
    "reward": ("headrace_reward",),
    "evaluation": ("headrace_evaluation",),
    "training": ("headrace_training",),
    "gateway": ("headrace_serving", "gateway"),
    "agent": ("headrace_serving", "agent"),
    "console": ("headrace_console",),
}
ADDRESSED = ("gateway", "registry", "feedback", "evaluation", "console")
"""Those whose address others read as HEADRACE_NAME_URL."""


def shared_env(state: StackState, credentials: Credentials) -> dict[str, str]:
    """The settings that all services read."""
    endpoint = f"127.0.0.1:{state.ports['s3']}"
    addresses = {f"HEADRACE_{name.upper()}_URL": state.url(name) for name in ADDRESSED if name in state.ports}
    return {
        "HEADRACE_KAFKA_BOOTSTRAP": state.kafka_bootstrap,
        # The embedded broker answers InitProducerId with an error.
        "HEADRACE_KAFKA_IDEMPOTENCE": "false" if state.options.broker == "embedded" else "true",
        "HEADRACE_DATABASE_URL": postgres.url(state.ports["postgres"], credentials.postgres_password),
        "HEADRACE_ADMIN_TOKEN": credentials.admin_token,
        "HEADRACE_LOG_FORMAT": state.options.log_format,
        "HEADRACE_MODELS_DIR": state.models_dir or "",
        "HF_HUB_OFFLINE": "1",
        **S3Settings(endpoint, credentials.s3_access_key, credentials.s3_secret_key, BUCKET).env(),
        **addresses,
    }


def specs(state: StackState, credentials: Credentials, after: tuple[str, ...]) -> list[ProcessSpec]:
    """The chosen services, and the first API key once the registry runs.

    Only the agent waits for the engine, which is slow; the others start as soon as `after` allows.
    """
    shared = shared_env(state, credentials)
    planned = []
    for name in state.options.services:
        if name == "agent" and state.options.engine == "none":
            continue
        port = state.ports[name]
        planned.append(
            ProcessSpec(
                name=name,
                argv=(sys.executable, "-m", *COMMANDS[name]),
                env={**shared, **address(name, port), **own_env(name, state, credentials)},
                # The gateway is ready when it knows a policy, which the user applies once the stack is up.
                ready=HttpAnswers(port, "/health/live" if name == "gateway" else "/health/ready"),
                after=(*after, "vllm") if name == "agent" else after,
                stop_timeout_s=15,
                ready_timeout_s=180,
                # A trainer is a process below the service, which ends it when it is asked to stop.
                death_signal=signal.SIGTERM if name == "training" else signal.SIGKILL,
                idle=name == "training",
                port=port,
                url=state.url(name),
            )
        )
    if "registry" in state.options.services:
        argv = (sys.executable, "-m", "headrace_local.first_key", str(state.root), state.registry_url)
        planned.append(ProcessSpec(name="first-key", argv=argv, after=("registry",), once=True))
    return planned


def address(name: str, port: int) -> dict[str, str]:
    """Where a service listens."""
    return {f"{name.upper()}_HOST": "127.0.0.1", f"{name.upper()}_PORT": str(port)}


def own_env(name: str, state: StackState, credentials: Credentials) -> dict[str, str]:
    """What one service reads besides; every folder lies below the stack's data."""
    data = str(state.layout.data / name)
    if name == "gateway":
        return {"GATEWAY_DATA_DIR": data}
    if name == "agent":
        return {
            "AGENT_ENGINE_URL": state.url("vllm"),
            "AGENT_REPLICA": "local",
            "AGENT_CACHE_DIR": data,
            "AGENT_MAX_ADAPTERS": str(engine.MAX_LORAS),
            "AGENT_MAX_RANK": str(engine.MAX_LORA_RANK),
            "AGENT_DTYPE": "float32" if engine.on_cpu() else "",
        }
    if name == "evaluation":
        return {"EVALUATION_KEY": credentials.evaluation_key, "EVALUATION_API_KEY": credentials.evaluation_api_key}
    if name == "training":
        return {"TRAINING_WORK_DIR": data}
    return {}
