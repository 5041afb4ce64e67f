"""structlog: JSON off a terminal, one canonical line per unit of work, the trace id on every line."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import orjson
import structlog

from headrace_kit.tracing import current_trace_id


def _trace(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    trace = current_trace_id()
    if trace:
        event.setdefault("trace_id", trace)
    return event


def _dumps(value: Any, **_: Any) -> str:
    return orjson.dumps(value, default=str).decode()


def configure(service: str, level: str = "INFO", fmt: str = "json") -> None:
    """Once per process, before the first line."""
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_dumps)
        if fmt == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _trace,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")


log = structlog.get_logger()


@contextlib.contextmanager
def canonical(what: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """One line for one unit of work: the block adds fields, the line is written when it ends, whatever the end."""
    started, line = time.perf_counter(), dict(fields)
    try:
        yield line
    except BaseException as error:
        line.setdefault("outcome", "error")
        line["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        line["duration_s"] = round(time.perf_counter() - started, 6)
        log.info(what, **line)
