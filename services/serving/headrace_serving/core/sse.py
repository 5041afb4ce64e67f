"""Server-sent events from byte chunks that may be cut anywhere."""

_END = b"\n\n"


class Events:
    """Feed bytes, get the data of each whole event. Comments and other fields are dropped.

    vLLM ends lines with LF; CRLF is turned into it. A `data` field over several lines is joined by LF, as the
    standard says.
    """

    def __init__(self, limit_bytes: int = 16 * 1024 * 1024) -> None:
        self._rest = b""
        self._limit = limit_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raises ValueError for an event that does not end within the limit."""
        data = self._rest + chunk
        held = b""
        if b"\r" in data:
            if data.endswith(b"\r"):  # perhaps the first half of a CRLF
                data, held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n")
        if _END not in data:
            self._keep(data + held)
            return []
        *whole, rest = data.split(_END)
        self._keep(rest + held)
        return [payload for event in whole if (payload := _payload(event)) is not None]

    def _keep(self, rest: bytes) -> None:
        if len(rest) > self._limit:
            raise ValueError("an event of the stream does not end")
        self._rest = rest


def _payload(event: bytes) -> bytes | None:
    event = event.lstrip(b"\n")
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def frame(payload: bytes) -> bytes:
    return b"data: " + payload + _END
