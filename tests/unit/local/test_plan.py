"""What the stack starts, for which options."""

import importlib
import inspect

import pytest
from headrace_local import plan
from headrace_local.credentials import load_or_make
from headrace_local.options import SERVICES, OptionError, StackOptions, layout
from headrace_local.spec import in_order
from pydantic_settings import BaseSettings

PACKAGES = [
    "headrace_kit",
    "headrace_serving",
    *(f"headrace_{name}" for name in ("registry", "feedback", "reward", "evaluation", "training", "console")),
]


def variables_of(package):
    """Names of the environment variables that a package's settings read."""
    module = importlib.import_module(f"{package}.settings")
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, BaseSettings):
            prefix = found.model_config.get("env_prefix", "")
            yield from (f"{prefix}{field}".upper() for field in found.model_fields)


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """The specs by name for some options."""
    home = tmp_path / "kafka"
    (home / "libs").mkdir(parents=True)
    (home / "libs" / "kafka_2.13-4.4.0.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(home))
    # Kafka's plan names the program that would run; no Java is needed to look at it.
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    where = layout(tmp_path)

    def make(**options):
        state = plan.first_state(where, StackOptions(**options), {})
        return {spec.name: spec for spec in in_order(plan.specs(state, load_or_make(where)))}

    return make


def test_the_whole_stack_has_its_parts_its_steps_and_all_services(planned):
    names = set(planned())
    assert {"s3", "postgres", "broker", "vllm", "topics", "migrations", "first-key", *SERVICES} <= names


def test_without_an_engine_there_is_no_agent(planned):
    assert not {"vllm", "model", "agent"} & set(planned(engine="none"))


def test_a_broker_that_runs_already_is_not_started_but_told_to_the_services(planned):
    specs = planned(broker="10.0.0.1:9092", engine="none")
    assert "broker" not in specs
    assert specs["reward"].env["HEADRACE_KAFKA_BOOTSTRAP"] == "10.0.0.1:9092"


@pytest.mark.parametrize(("broker", "idempotence"), [("kafka", "true"), ("embedded", "false"), ("a:9092", "true")])
def test_only_the_embedded_broker_goes_without_idempotence(planned, broker, idempotence):
    assert planned(broker=broker)["reward"].env["HEADRACE_KAFKA_IDEMPOTENCE"] == idempotence


def test_the_slow_engine_waits_for_the_model_alone_and_only_the_agent_waits_for_it(planned):
    specs = planned()
    assert specs["vllm"].after == ("model",)
    assert [name for name, spec in specs.items() if "vllm" in spec.after] == ["agent"]


def test_services_start_once_topics_and_schemas_are_there(planned):
    specs = planned()
    assert all({"topics", "migrations"} <= set(specs[name].after) for name in SERVICES)


def test_every_process_listens_on_loopback(planned):
    for name, spec in planned(broker="kafka").items():
        given = " ".join([*spec.argv, *(f"{key}={value}" for key, value in spec.env.items())])
        assert "0.0.0.0" not in given, name
        if name in SERVICES:
            assert spec.env[f"{name.upper()}_HOST"] == "127.0.0.1"


def test_data_of_one_broker_are_not_read_with_the_offsets_of_another(planned):
    planned(broker="embedded", engine="none")
    with pytest.raises(OptionError, match="belong to the embedded broker"):
        planned(broker="kafka", engine="none")


def test_no_secret_is_on_a_command_line(planned, tmp_path):
    specs = planned()
    secrets = load_or_make(layout(tmp_path))
    line = " ".join(part for spec in specs.values() for part in spec.argv)
    for secret in (secrets.admin_token, secrets.api_key, secrets.postgres_password, secrets.s3_secret_key):
        assert secret not in line


def test_every_variable_that_a_service_gets_is_one_that_a_settings_class_reads(planned):
    read = {name for package in PACKAGES for name in variables_of(package)} | {"HF_HUB_OFFLINE"}
    # Addresses of services are for the CLI and the SDK as well, which read them by name.
    read |= {f"HEADRACE_{name}_URL" for name in ("GATEWAY", "REGISTRY", "FEEDBACK", "EVALUATION", "CONSOLE")}
    for name, spec in planned().items():
        if name in SERVICES:
            assert set(spec.env) - read == set(), name


def test_evaluation_asks_with_a_key_of_its_own(planned, tmp_path):
    known = load_or_make(layout(tmp_path))
    assert planned()["evaluation"].env["EVALUATION_API_KEY"] == known.evaluation_api_key != known.api_key
