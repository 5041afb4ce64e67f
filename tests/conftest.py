"""Real parts for the tests: PostgreSQL, S3 and both brokers, each started once a session, loopback only."""

import os
import secrets
import shutil
from pathlib import Path

import asyncpg
import pytest

from headrace_kit.settings import KafkaSettings, ObjectSettings
from headrace_local import parts

ROOT = Path(__file__).resolve().parents[1]


def kafka_home() -> Path | None:
    """Where Apache Kafka's jars are: KAFKA_HOME, else the folder that developers of this project share."""
    for place in (os.environ.get("KAFKA_HOME"), ROOT.parent / "shared" / "kafka"):
        if place and (Path(place) / "libs").is_dir() and shutil.which("java"):
            return Path(place)
    return None


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory):
    with parts.postgres(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture
async def database_url(postgres_url: str):
    """A fresh, empty database."""
    name = f"t{secrets.token_hex(6)}"
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f'CREATE DATABASE "{name}"')
    from sqlalchemy.engine import make_url

    yield make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.close()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory):
    with parts.seaweed(tmp_path_factory.mktemp("s3")) as settings:
        yield settings


@pytest.fixture
def s3_settings(s3) -> ObjectSettings:
    return ObjectSettings(
        endpoint=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, bucket=f"b{secrets.token_hex(6)}"
    )


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory, s3):
    with parts.embedded_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory):
    home = kafka_home()
    if home is None:
        pytest.skip("no Apache Kafka here: set KAFKA_HOME to a folder with libs/, and install Java 17")
    with parts.apache_kafka(tmp_path_factory.mktemp("kafka"), home=home) as bootstrap:
        yield bootstrap


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """Both brokers, one after the other."""
    return request.getfixturevalue("embedded" if request.param == "embedded" else "apache")


@pytest.fixture
def kafka_settings(kafka_bootstrap: str, request: pytest.FixtureRequest) -> KafkaSettings:
    return KafkaSettings(bootstrap=kafka_bootstrap, idempotence="kafka]" in request.node.name)


@pytest.fixture
def topic_prefix() -> str:
    """Topics of its own for each test."""
    return f"t{secrets.token_hex(5)}"
