"""A request that is refused, in the shape that OpenAI clients show to their users."""

from typing import Any


class Refusal(Exception):
    """`code` is for machines, `param` names the field, the message is one sentence with the mend."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        *,
        kind: str = "invalid_request_error",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind
        self.headers = headers

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def not_ready(message: str) -> Refusal:
    """Nothing can answer at the moment; a client may come again."""
    return Refusal(503, "not_ready", message, kind="server_error", headers=(("retry-after", "2"),))
