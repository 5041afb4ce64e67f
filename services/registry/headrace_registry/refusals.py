"""Requests that are refused before or beside the commands, in the error shape that every service answers."""

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace_kit.http import error_body


async def on_invalid(_: Request, error: Exception) -> Response:
    """422 with the path of the first field that is wrong; the value itself is not repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(step) for step in first["loc"][1:]) or None
    said = {"missing": "is missing", "extra_forbidden": "is not a field of this request"}.get(first["type"], first["msg"])
    message = f"{field or 'body'}: {said.removeprefix('Value error, ')}"
    return JSONResponse(error_body(first["type"], message, field), 422)


async def on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    return JSONResponse(error_body(code, str(error.detail)), error.status_code, error.headers)


async def on_route_moved(_: Request, error: Exception) -> Response:
    """Somebody else was faster; the caller should look before it tries again."""
    return JSONResponse(error_body("route_changed", f"{error}: look again"), 409, {"x-should-retry": "false"})


HANDLERS = {RequestValidationError: on_invalid, HTTPException: on_http}
