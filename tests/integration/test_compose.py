"""docker-compose.yml is accepted by the real Compose client, and sets nothing that nobody reads."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic_settings import BaseSettings

from headrace_local.known_key import KnownKeySettings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
CLIENT = Path(sys.executable).with_name("docker-compose")
PROFILES = ("cpu", "gpu")
PACKAGES = {
    "gateway": "headrace_serving",
    "agent": "headrace_serving",
    "feedback": "headrace_feedback",
    "reward": "headrace_reward",
    "registry": "headrace_registry",
    "evaluation": "headrace_evaluation",
    "console": "headrace_console",
    "training": "headrace_training",
    "training-gpu": "headrace_training",
}
OURS = re.compile(r"^(HEADRACE|GATEWAY|AGENT|FEEDBACK|REWARD|TRAINING|REGISTRY|EVALUATION|CONSOLE)_")
FERNET_KEY = "c2l4dGVlbi1ieXRlcy0tLXNpeHRlZW4tYnl0ZXMtLS0="


def example():
    lines = [line.partition("=") for line in (ROOT / ".env.example").read_text().splitlines() if line[:1].isupper()]
    return {name: value for name, _, value in lines}


def secrets():
    """A filled .env: each variable of .env.example that has no value gets one."""
    special = {"EVALUATION_KEY": FERNET_KEY, "HEADRACE_API_KEY": "hr_abcd1234_0123456789abcdef01234567"}
    return {name: value or special.get(name, "0123456789abcdef01234567") for name, value in example().items()}


def compose(*arguments, env=None):
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [str(CLIENT), "--env-file", os.devnull, "-f", str(FILE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=clean | (env or {}), cwd=ROOT, timeout=60)


def config(profile):
    env = {k: v for k, v in secrets().items() if k != "COMPOSE_PROFILES"}
    done = compose("--profile", profile, "config", "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def settings_classes(package):
    """Every Settings class of a package that the environment fills."""
    found = []
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name == "settings":
            names = vars(importlib.import_module(f"{package}.{module.name}"))
            found += [
                c
                for c in names.values()
                if inspect.isclass(c) and issubclass(c, BaseSettings) and c is not BaseSettings
            ]
    return [c for c in dict.fromkeys(found) if c.model_config.get("env_prefix")]


def variables(cls):
    return {f"{cls.model_config['env_prefix']}{name}".upper() for name in cls.model_fields}


def shared():
    return settings_classes("headrace_kit")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_real_client_accepts_every_profile(profile):
    services = config(profile)["services"]
    assert {"kafka", "postgres", "s3", "topics", "migrate", "bucket", "model", *PACKAGES} - set(services) == (
        {"training-gpu"} if profile == "cpu" else {"training"}
    )
    engines = [name for name in services if name.startswith("vllm")]
    assert engines == (["vllm"] if profile == "cpu" else ["vllm-gpu"])


@pytest.mark.parametrize("missing", [name for name in secrets() if not example()[name]])
def test_a_missing_secret_is_named_with_the_mend(missing):
    done = compose("--profile", "cpu", "config", env={k: v for k, v in secrets().items() if k != missing})
    assert done.returncode != 0
    assert re.search(rf"{missing} is missing a value: make one", done.stderr), done.stderr


@pytest.mark.parametrize("profile", PROFILES)
def test_every_variable_that_compose_sets_is_one_that_a_settings_class_reads(profile):
    read = {name for cls in shared() for name in variables(cls)}
    for service, spec in config(profile)["services"].items():
        own = settings_classes(PACKAGES[service]) if service in PACKAGES else []
        own += [KnownKeySettings] if service == "key" else []
        known = read | {name for cls in own for name in variables(cls)}
        unread = {name for name in spec.get("environment", {}) if OURS.match(name)} - known
        assert not unread, f"{service} sets what nobody reads: {sorted(unread)}"


ON = [(p, s) for p in PROFILES for s in PACKAGES if s != ("training-gpu" if p == "cpu" else "training")]


@pytest.mark.parametrize(("profile", "service"), ON)
def test_every_service_gets_the_settings_that_it_needs(profile, service, monkeypatch):
    spec = config(profile)["services"][service]
    for name in list(os.environ):
        if OURS.match(name):
            monkeypatch.delenv(name)
    for name, value in spec["environment"].items():
        monkeypatch.setenv(name, value)
    prefix = f"{service.removesuffix('-gpu').upper()}_"
    for cls in settings_classes(PACKAGES[service]):
        if cls.model_config["env_prefix"] in (prefix, *(c.model_config["env_prefix"] for c in shared()), "HEADRACE_"):
            cls()
    assert spec["environment"][f"{prefix}PORT"] == "8080"


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_listens_beyond_loopback_and_the_engine_on_no_host_port_at_all(profile):
    for name, spec in config(profile)["services"].items():
        for port in spec.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name
        assert not (name.startswith("vllm") and spec.get("ports"))
        assert "network_mode" not in spec
        assert not spec.get("privileged")


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_that_stays_up_is_checked_and_what_is_waited_for_can_be_waited_for(profile):
    services = config(profile)["services"]
    for name, spec in services.items():
        assert ("healthcheck" in spec) == (spec.get("restart") == "unless-stopped"), name
        for other, how in spec.get("depends_on", {}).items():
            if other not in services:
                assert not how["required"], f"{name} waits for {other}, which is not in the profile {profile}"
                continue
            once = "healthcheck" not in services[other]
            assert how["condition"] == ("service_completed_successfully" if once else "service_healthy"), (name, other)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_engine_is_started_as_the_agent_and_the_local_stack_expect(profile):
    from headrace_local import engine

    services = config(profile)["services"]
    vllm = next(spec for name, spec in services.items() if name.startswith("vllm"))
    agent = services["agent"]["environment"]
    assert f"--max-loras={agent['AGENT_MAX_ADAPTERS']}" in vllm["command"]
    assert f"--max-lora-rank={agent['AGENT_MAX_RANK']}" in vllm["command"]
    assert agent["AGENT_MAX_ADAPTERS"] == str(engine.MAX_LORAS)
    assert agent["AGENT_MAX_RANK"] == str(engine.MAX_LORA_RANK)
    assert "--logprobs-mode=processed_logprobs" in vllm["command"]
    assert "engine" in vllm["networks"]["default"]["aliases"]
    cache = {v["target"]: v["source"] for v in vllm["volumes"]}
    assert cache[agent["AGENT_CACHE_DIR"]] == "adapters"
    assert {v["target"]: v["source"] for v in services["agent"]["volumes"]}[agent["AGENT_CACHE_DIR"]] == "adapters"


def test_every_image_that_we_build_is_a_target_of_the_dockerfile_and_runs_as_somebody_else_than_root():
    text = (ROOT / "infra" / "docker" / "Dockerfile").read_text()
    stages = {m[1]: m[0] for m in re.finditer(r"^FROM \S+ AS (\S+)\n(?:.*\n(?!FROM ))*.*", text, re.MULTILINE)}
    for profile in PROFILES:
        for name, spec in config(profile)["services"].items():
            if "build" in spec:
                assert "USER headrace" in stages[spec["build"]["target"]], name
    for slim in ("gateway", "services"):
        assert "torch" not in re.sub(r"#.*", "", stages[slim])


def test_migrations_are_run_for_every_service_that_has_some():
    command = yaml.safe_load(FILE.read_text())["services"]["migrate"]["command"]
    there = {p.parent.name for p in (ROOT / "services").glob("*/headrace_*/migrations")}
    assert set(command[1:]) >= there
