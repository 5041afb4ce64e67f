"""W3C trace context carried through HTTP and Kafka: one trace id from the request to the adapter that it taught."""

import contextvars
import re
import secrets

_CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("headrace_traceparent", default="")
_FORM = re.compile(r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")


def new_traceparent() -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def enter(traceparent: str | None) -> str:
    """Continue a trace for what follows in this task, or start one; answers the traceparent to hand on."""
    if traceparent and _FORM.match(traceparent):
        value = f"{traceparent[:36]}{secrets.token_hex(8)}{traceparent[52:]}"
    else:
        value = new_traceparent()
    _CURRENT.set(value)
    return value


def current() -> str:
    """The traceparent of this task, or an empty string."""
    return _CURRENT.get()


def current_trace_id() -> str:
    return _CURRENT.get()[3:35]
