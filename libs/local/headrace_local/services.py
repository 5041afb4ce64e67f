"""The services of the stack: command, environment, what each waits for."""

from __future__ import annotations

import sys

from headrace_local import postgres
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


def shared_env(state: StackState, credentials: Credentials) -> dict[str, str]:
    """The settings that all services read."""
    s3 = S3Settings(f"127.0.0.1:{state.ports['s3']}", credentials.s3_access_key, credentials.s3_secret_key, BUCKET)
    env = {
        "HEADRACE_KAFKA_BOOTSTRAP": state.kafka_bootstrap,
        # The embedded broker answers InitProducerId with an error.
        "HEADRACE_KAFKA_IDEMPOTENCE": "false" if state.options.broker == "embedded" else "true",
        "HEADRACE_DATABASE_URL": postgres.url(state.ports["postgres"], credentials.postgres_password),
        "HEADRACE_ADMIN_TOKEN": credentials.admin_token,
        "HEADRACE_LOG_FORMAT": state.options.log_format,
        "HEADRACE_MODELS_DIR": state.models_dir or "",
        "HF_HUB_OFFLINE": "1",
        **s3.env(),
    }
    for name in ("gateway", "registry", "feedback", "evaluation", "console"):
        if name in state.ports:
            env[f"HEADRACE_{name.upper()}_URL"] = f"http://127.0.0.1:{state.ports[name]}"
    return env


def specs(state: StackState, credentials: Credentials, after: tuple[str, ...]) -> list[ProcessSpec]:
    """The chosen services. All but the agent start without waiting for the engine, which is slow."""
    shared = shared_env(state, credentials)
    planned = []
    for name in state.options.services:
        if name == "agent" and state.options.engine == "none":
            continue
        port = state.ports[name]
        needs = [other for other in after if other not in ("vllm", "model")]
        planned.append(
            ProcessSpec(
                name=name,
                argv=(sys.executable, "-m", *COMMANDS[name]),
                env=shared | _address(name, port) | _own(name, state),
                ready=HttpAnswers(port, "/health/live"),
                after=tuple(needs if name != "agent" else after),
                stop_timeout_s=15,
                idle=name == "training",
                port=port,
                url=f"http://127.0.0.1:{port}",
            )
        )
    return planned


def _address(name: str, port: int) -> dict[str, str]:
    return {f"{name.upper()}_HOST": "127.0.0.1", f"{name.upper()}_PORT": str(port)}


def _own(name: str, state: StackState) -> dict[str, str]:
    """What one service reads besides; every stateful folder lies below the stack's data."""
    return {}
