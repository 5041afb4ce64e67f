"""The parts one by one as context managers, for tests and benchmarks that need no whole stack.

    with postgres(folder) as url, seaweed(folder) as s3, embedded_broker(folder) as bootstrap: ...

Data stay in the folder: the same folder brings the same data back. For a test that kills a part,
`kafka_cluster` and `running` give the processes by name.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace_local import broker, child, objects, ports
from headrace_local import postgres as database
from headrace_local.objects import S3Settings
from headrace_local.spec import ProcessSpec, in_order


@dataclass
class Running:
    """Started parts by name, to be killed and started again."""

    folder: Path
    specs: dict[str, ProcessSpec]
    children: dict[str, child.Child] = field(default_factory=dict)

    def pid(self, name: str) -> int:
        return self.children[name].pid

    def kill(self, name: str) -> None:
        """SIGKILL, and whatever it had started with it."""
        self.children[name].process.kill()
        self.children[name].process.wait()
        child.end_session(self.pid(name))

    def start(self, *names: str) -> None:
        """Start these, all at once, and wait until every one is ready. Raises StartError."""
        for name in names:
            self.children[name] = child.start(self.specs[name], self.folder / "logs", self.folder)
        for name in names:
            child.wait_until_ready(self.children[name])

    def stop(self) -> None:
        """End all, the last started first."""
        for started in reversed(self.children.values()):
            child.stop(started)


@contextmanager
def running(specs: Iterable[ProcessSpec], folder: Path) -> Iterator[Running]:
    """Start `specs` in dependency order, those that wait for the same at once; stop them at the end."""
    ordered = in_order(specs)
    parts = Running(folder, {spec.name: spec for spec in ordered})
    try:
        ready: set[str] = set()
        while len(ready) < len(ordered):
            batch = [s for s in ordered if s.name not in ready and ready.issuperset(s.after)]
            parts.start(*(s.name for s in batch if not (s.once and s.result is not None and s.result.exists())))
            ready.update(s.name for s in batch)
        yield parts
    finally:
        parts.stop()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """PostgreSQL; yields its URL (user postgres, database postgres, TCP on loopback)."""
    folder = folder.resolve()
    password_file = folder / "postgres.password"
    if not password_file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_urlsafe(24))
    password = password_file.read_text()
    port = ports.choose(["postgres"])["postgres"]
    with running(database.specs(folder / "postgres", port, password, password_file), folder):
        yield database.url(port, password)


def _s3_parts(folder: Path, buckets: list[str]) -> tuple[ProcessSpec, S3Settings]:
    chosen = ports.choose(objects.PORTS)
    settings = S3Settings(f"127.0.0.1:{chosen['s3']}", "headrace", "local-store-of-a-test", buckets[0])
    return objects.spec(folder / "s3", chosen, settings, buckets), settings


@contextmanager
def seaweed(folder: Path, bucket: str = "headrace") -> Iterator[S3Settings]:
    """The S3 store with an empty `bucket`; yields how to reach it."""
    folder = folder.resolve()
    spec, settings = _s3_parts(folder, [bucket])
    with running([spec], folder):
        yield settings


@contextmanager
def embedded_broker(folder: Path, s3: S3Settings | None = None) -> Iterator[str]:
    """Tansu on S3 (its own store where none is given, which takes a second more); yields host:port.

    A given store must have the bucket `headrace-log` or make buckets by itself, as SeaweedFS does.
    """
    folder = folder.resolve()
    specs: list[ProcessSpec] = []
    port = ports.choose(["broker"])["broker"]
    if s3 is None:
        store, s3 = _s3_parts(folder / "broker-s3", ["headrace-log"])
        specs.append(store)
    tansu = broker.embedded(port, s3, "headrace-log")
    if not specs:
        tansu = replace(tansu, after=())
    with running([*specs, tansu], folder):
        yield f"127.0.0.1:{port}"


@dataclass
class KafkaCluster:
    """Apache Kafka brokers, named `broker` where there is one, else `broker-1`, `broker-2`, …"""

    bootstrap: str
    parts: Running


@contextmanager
def kafka_cluster(folder: Path, brokers: int = 1, home: Path | None = None) -> Iterator[KafkaCluster]:
    """Apache Kafka; `parts.kill(NAME)` and `parts.start(NAME)` are for tests of what survives."""
    folder = folder.resolve()
    names = [f"{kind}-{node}" for node in range(brokers) for kind in ("client", "controller")]
    chosen = ports.choose(names)
    pairs = [(chosen[f"client-{node}"], chosen[f"controller-{node}"]) for node in range(brokers)]
    specs = broker.apache(home or broker.kafka_home(), folder / "kafka", pairs)
    with running(specs, folder) as parts:
        yield KafkaCluster(",".join(f"127.0.0.1:{port}" for port, _ in pairs), parts)


@contextmanager
def apache_kafka(folder: Path, brokers: int = 1, home: Path | None = None) -> Iterator[str]:
    """Apache Kafka; yields its bootstrap servers."""
    with kafka_cluster(folder, brokers, home) as cluster:
        yield cluster.bootstrap
