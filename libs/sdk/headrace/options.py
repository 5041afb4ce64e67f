"""Where feedback goes and how, from arguments and the environment; read when a client is made, never at import."""

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

VERSION = "0.1.0"
_OFF = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Options:
    """How a client behaves."""

    url: str
    """Of the batch endpoint; empty where no gateway is known."""
    headers: dict[str, str]
    strict: bool
    disabled: bool
    batch_size: int
    flush_every_s: float
    queue_size: int
    timeout_s: float
    problem: str = ""
    """Why nothing can be sent, in one sentence with the mend; empty where all is well."""


def read(
    gateway_url: str | None,
    api_key: str | None,
    *,
    strict: bool,
    disabled: bool | None,
    batch_size: int,
    flush_every_s: float,
    queue_size: int,
    timeout_s: float,
) -> Options:
    """Arguments first, then HEADRACE_GATEWAY_URL, HEADRACE_API_KEY and HEADRACE_DISABLED."""
    base = (gateway_url or os.environ.get("HEADRACE_GATEWAY_URL", "")).rstrip("/").removesuffix("/v1")
    key = api_key or os.environ.get("HEADRACE_API_KEY", "")
    headers = {"content-type": "application/json", "user-agent": f"headrace-python/{VERSION}"}
    problem = _problem(base, key)
    if key and not problem:
        headers["authorization"] = f"Bearer {key}"
    off = os.environ.get("HEADRACE_DISABLED", "").strip().lower() in _OFF
    return Options(
        url=f"{base}/v1/feedback/batch" if base else "",
        headers=headers,
        strict=strict,
        disabled=off if disabled is None else disabled,
        batch_size=max(1, min(batch_size, 100)),
        flush_every_s=max(0.0, flush_every_s),
        queue_size=max(1, queue_size),
        timeout_s=timeout_s,
        problem=problem,
    )


def _problem(base: str, key: str) -> str:
    if not base:
        return "no gateway is known: set HEADRACE_GATEWAY_URL, or pass gateway_url"
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return f"the gateway's address {base!r} is none: give one such as http://127.0.0.1:8080"
    if not key.isascii() or any(c.isspace() for c in key):
        return "the API key holds characters that no key has: make one with `headrace keys create`"
    return ""
