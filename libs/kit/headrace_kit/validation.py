"""Refusals of FastAPI apps in the error shape that every service answers. Only services with FastAPI import this."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import error_body, on_rejected

Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]
_WORDS = {"missing": "is missing", "extra_forbidden": "is not a field of this request"}


async def on_invalid(_: Request, error: Exception) -> Response:
    """422 with the path of the first field that is wrong. The value is not repeated: it may be private."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse(error_body("json_invalid", "the body is not JSON"), 422)
    field = ".".join(str(step) for step in first["loc"][1:]) or None
    said = _WORDS.get(first["type"], first["msg"]).removeprefix("Value error, ")
    return JSONResponse(error_body(first["type"], f"{field or first['loc'][0]}: {said}", field), 422)


async def on_http(_: Request, error: Exception) -> Response:
    """Addresses and methods that do not exist."""
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    return JSONResponse(error_body(code, str(error.detail)), error.status_code, error.headers)


HANDLERS: dict[int | type[Exception], Handler] = {
    RequestValidationError: on_invalid,
    HTTPException: on_http,
    Rejected: on_rejected,
    Retryable: on_rejected,
}
