"""Request bodies: bounded before they are read, and JSON with finite numbers only."""

from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from headrace_kit.errors import Rejected

MAX_BODY = 1_048_576
"""Bytes of any request."""


async def read_json(request: Request) -> Any:
    """The document. Raises Rejected: 413 for a body over 1 MB, 400 for one that is not JSON."""
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > MAX_BODY:
        raise _too_large()
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise _too_large()
    except ClientDisconnect:
        raise Rejected("client_gone", "the client left before its request was whole", status=400) from None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Rejected("not_json", f"the body is not JSON: {error}", status=400) from None


def _too_large() -> Rejected:
    return Rejected("too_large", f"a request has at most {MAX_BODY} bytes", status=413)
