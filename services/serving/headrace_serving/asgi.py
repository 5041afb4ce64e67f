"""A request and its answer on raw ASGI: what the gateway needs of HTTP, and no more."""

import re
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope, Send

from headrace_serving.core.refusal import Refusal

_PLAIN = re.compile(r"^[\x21-\x7e]{1,200}$")
Headers = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


class Call:
    """One HTTP request. Header names are in lower case."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.receive = receive
        self._send = send
        self.started = False

    def request_id(self, otherwise: str) -> str:
        given = self.headers.get("x-request-id", "")
        return given if _PLAIN.match(given) else otherwise

    async def body(self, limit: int) -> bytes:
        """Raises a 413 Refusal over `limit` bytes, ClientGone for half a body."""
        too_large = Refusal(413, "too_large", f"the body is larger than {limit} bytes")
        stated = self.headers.get("content-length", "0")
        if stated.isdigit() and int(stated) > limit:
            raise too_large
        chunks, size = [], 0
        while True:
            message: Message = await self.receive()
            if message["type"] != "http.request":
                raise ClientGone
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise too_large
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def gone(self) -> None:
        """Returns when the client has left, or when the answer is complete."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Headers) -> None:
        """A whole JSON answer."""
        await self.start(
            status, [*headers, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        )
        await self.write(body, more=False)

    async def refuse(self, refusal: Refusal, headers: Headers) -> None:
        extra = [(name.encode(), value.encode("latin-1")) for name, value in refusal.headers]
        await self.answer(refusal.status, orjson.dumps(refusal.body()), [*headers, *extra])


def parse_json(body: bytes) -> Any:
    """Raises a 400 Refusal saying where it stops being JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "invalid_json", f"the body is not JSON: {error}") from None
