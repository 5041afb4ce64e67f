"""The engine's side of an exchange: what is sent with each call, how it may fail, and what its answers mean."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import orjson

from headrace_serving.core.refusal import Refusal

BROKEN = (aiohttp.ClientError, OSError, ValueError)
"""A connection that could not be made or broke, and bytes that are not what an engine says."""
HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}


class Failure(NamedTuple):
    """Why a replica did not answer, before any byte had gone to the client."""

    why: str
    again: bool
    """The same replica may be asked once more: a kept-alive connection may have been stale."""
    rest: bool
    """Ask it last for a while."""


class UpstreamFailed(Exception):
    """The engine broke off after bytes had gone to the client: nothing can be tried again."""


def body_of(upstream: Mapping[str, Any], model: str) -> bytes:
    """The request for the engine. Raises a 400 Refusal for one that can be read and not be written."""
    try:
        return orjson.dumps({**upstream, "model": model})
    except orjson.JSONEncodeError as error:  # orjson reads 1024 levels and writes 254
        raise Refusal(400, "invalid_json", f"the body cannot be passed on: {str(error).lower()}") from None


def document_of(data: bytes) -> dict[str, Any]:
    """Raises ValueError for what is not a JSON object."""
    document = orjson.loads(data)
    if not isinstance(document, dict):
        raise ValueError("the engine's answer is not a JSON object")  # noqa: TRY004 (broken input, not a bug)
    return document


def refusal_of(status: int, text: bytes) -> Refusal:
    """What the engine says against the request itself, e.g. a prompt that is too long, in its own words."""
    try:
        error = orjson.loads(text).get("error") or {}
    except (orjson.JSONDecodeError, AttributeError):
        error = {}
    message = str(error.get("message") or text.decode(errors="replace") or f"the engine answered {status}")
    return Refusal(status, str(error.get("code") or "refused_by_engine"), message[:2000], error.get("param"))
