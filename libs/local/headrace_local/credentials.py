"""The stack's secrets: made once, kept in one file that only its owner reads."""

from __future__ import annotations

import base64
import json
import os
import secrets
import string
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headrace_local.options import Layout


@dataclass(frozen=True)
class Credentials:
    """What the parts and services authenticate with."""

    admin_token: str
    """Bearer token of the services' internal HTTP."""
    s3_access_key: str
    s3_secret_key: str
    postgres_password: str
    evaluation_key: str
    """Encrypts private suites at rest: 32 random bytes, url-safe base64."""
    evaluation_api_key: str
    """What evaluation asks the gateway with."""
    api_key: str
    """The first API key, `hr_PREFIX_SECRET`; the registry is told of it at each start."""


def load(layout: Layout) -> Credentials | None:
    """The stack's secrets, or None where none were made yet."""
    if not layout.secrets.exists():
        return None
    return Credentials(**json.loads(layout.secrets.read_text()))


def load_or_make(layout: Layout) -> Credentials:
    """The stack's secrets; new ones on the first start. Also writes PostgreSQL's password file for initdb."""
    found = load(layout)
    if found is None:
        found = Credentials(
            admin_token=secrets.token_hex(24),
            s3_access_key=f"headrace-{secrets.token_hex(4)}",
            s3_secret_key=secrets.token_hex(24),
            postgres_password=secrets.token_hex(24),
            evaluation_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            evaluation_api_key=new_api_key(),
            api_key=new_api_key(),
        )
        save(layout, found)
    write_private(layout.postgres_password, found.postgres_password)
    return found


def new_api_key() -> str:
    """A key in the form that the registry takes: eight of a-z0-9, then the secret."""
    prefix = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(8))
    return f"hr_{prefix}_{secrets.token_urlsafe(32)}"


def replace_api_key(layout: Layout) -> str:
    """Make another first API key, because the old one was revoked."""
    found = replace(load_or_make(layout), api_key=new_api_key())
    save(layout, found)
    return found.api_key


def save(layout: Layout, credentials: Credentials) -> None:
    write_private(layout.secrets, json.dumps(asdict(credentials), indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 in one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)
