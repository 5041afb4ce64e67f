"""What commands write: tables and words for people on a terminal, JSON for programs. Errors go to stderr.

Texts from services may hold anything, terminal codes included; `clean` makes them harmless, and markup is off.
"""

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NONE = "\u2013"
WIDE = 400
STYLES = {
    "ready": "green",
    "done": "dim",
    "ok": "green",
    "champion": "bold cyan",
    "promote": "green",
    "candidate": "yellow",
    "registered": "yellow",
    "starting": "yellow",
    "restarting": "yellow",
    "warning": "yellow",
    "hold": "yellow",
    "waiting": "dim",
    "stopped": "dim",
    "retired": "dim",
    "failed": "red",
    "gone": "red",
    "problem": "red",
    "reject": "red",
    "rejected": "red",
    "quarantined": "red",
}


def out() -> Console:
    """Made at each use, so that it follows where stdout goes."""
    return _console(sys.stdout.isatty())


def err() -> Console:
    return _console(sys.stderr.isatty(), stderr=True)


def _console(terminal: bool, *, stderr: bool = False) -> Console:
    """Into a pipe or a file nothing is wrapped: other programs count lines."""
    width = None if terminal else WIDE
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width, soft_wrap=not terminal)


def clean(text: object) -> str:
    """A service's text without control characters."""
    return _CONTROL.sub("", str(text))


def emit_json(document: Any) -> None:
    """To stdout, with nothing around it."""
    sys.stdout.write(json.dumps(document, indent=2, default=str, ensure_ascii=False) + "\n")


def word(text: object) -> Text:
    """A state or verdict in its colour."""
    said = clean(text) if text not in (None, "") else NONE
    return Text(said, style=STYLES.get(said, ""))


def styled(text: str, style: str) -> Text:
    """A cell in a colour."""
    return Text(text, style=style)


def cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(NONE if value in (None, "") else clean(value))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A column whose name ends in `#` is a number, set to the right; the last columns give way on a narrow screen."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_header=any(columns))
    for index, name in enumerate(columns):
        table.add_column(
            name.rstrip("#"),
            justify="right" if name.endswith("#") else "left",
            overflow="fold",
            no_wrap=index == 0 or name.endswith("#"),
        )
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    out().print(table)


def when(stamp: object, now: datetime | None = None) -> str:
    """`2026-12-01 10:00 UTC (5 min ago)` from an ISO time."""
    if not stamp:
        return NONE
    try:
        then = datetime.fromisoformat(str(stamp))
    except ValueError:
        return clean(stamp)
    then = then.astimezone(UTC)
    return f"{then:%Y-%m-%d %H:%M} UTC ({ago(then, now or datetime.now(UTC))})"


def since(stamp: object) -> str:
    """Only how long ago: for tables."""
    try:
        return ago(datetime.fromisoformat(str(stamp)), datetime.now(UTC)) if stamp else NONE
    except ValueError:
        return clean(stamp)


def ago(then: datetime, now: datetime) -> str:
    seconds = (now - then).total_seconds()
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"


def number(value: object, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else NONE


def short(digest: object) -> str:
    return clean(digest)[:12] if digest else NONE
