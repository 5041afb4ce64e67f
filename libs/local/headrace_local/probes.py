"""Questions that tell whether a process is ready, each one short attempt that answers yes or no.

They speak the process's own protocol: an open port says only that somebody listens, and PostgreSQL, Kafka and
vLLM all listen before they can work.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import struct
from dataclasses import dataclass
from typing import Protocol

TIMEOUT_S = 2.0


class Probe(Protocol):
    """One attempt; True when the process can do its work."""

    def __call__(self) -> bool: ...


@dataclass(frozen=True)
class HttpAnswers:
    """GET answers with one of `statuses`."""

    port: int
    path: str = "/"
    statuses: tuple[int, ...] = (200,)

    def __call__(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", self.path)
            return connection.getresponse().status in self.statuses
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass(frozen=True)
class CompletesChat:
    """The engine is healthy and has answered one chat request, which also warms it up (2 to 13 s on a CPU)."""

    port: int
    model: str
    timeout_s: float = 120.0

    def __call__(self) -> bool:
        if not HttpAnswers(self.port, "/health")():
            return False
        body = {"model": self.model, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass(frozen=True)
class KafkaAnswers:
    """The broker answers ApiVersions v0, which it does only once it is up."""

    port: int

    def __call__(self) -> bool:
        request = b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x02up"
        try:
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as connection:
                connection.settimeout(TIMEOUT_S)
                connection.sendall(len(request).to_bytes(4, "big") + request)
                return len(connection.recv(4)) == 4
        except OSError:
            return False


@dataclass(frozen=True)
class PostgresAnswers:
    """The server asks for a password: while it starts or recovers it answers with an error instead."""

    port: int

    def __call__(self) -> bool:
        parameters = b"user\x00postgres\x00database\x00postgres\x00\x00"
        request = struct.pack("!ii", 8 + len(parameters), 196608) + parameters
        try:
            with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as connection:
                connection.settimeout(TIMEOUT_S)
                connection.sendall(request)
                return connection.recv(1) == b"R"
        except OSError:
            return False


@dataclass(frozen=True)
class StoresObjects:
    """The S3 store has the buckets, and an object written to the first one can be removed again.

    SeaweedFS answers before its buckets are made and before its volumes can be written to.
    """

    endpoint: str
    access_key: str
    secret_key: str
    buckets: tuple[str, ...]

    def __call__(self) -> bool:
        import urllib3
        from minio import Minio
        from minio.error import MinioException

        if not HttpAnswers(int(self.endpoint.rpartition(":")[2]), statuses=(200, 403))():
            return False
        pool = urllib3.PoolManager(timeout=TIMEOUT_S, retries=False)
        store = Minio(
            self.endpoint, access_key=self.access_key, secret_key=self.secret_key, secure=False, http_client=pool
        )
        try:
            if not all(store.bucket_exists(bucket) for bucket in self.buckets):
                return False
            store.put_object(self.buckets[0], ".headrace-ready", io.BytesIO(b"1"), 1)
            store.remove_object(self.buckets[0], ".headrace-ready")
        except (MinioException, urllib3.exceptions.HTTPError, OSError):
            return False
        return True
