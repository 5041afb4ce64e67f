"""What an answer of the gateway, or its absence, means for a batch: pure decisions that both clients share."""

import email.utils
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
LONGEST_WISH_S = 120.0
"""A longer Retry-After is not believed."""
BROKEN_TRIES = 8
"""So often a batch that the gateway answers with another 5xx than 502, 503 and 504 is sent, lest it block the rest."""


@dataclass(frozen=True)
class Done:
    """The batch came to its end."""

    delivered: int
    refused: int = 0
    why: str = ""


@dataclass(frozen=True)
class Again:
    """The same bytes go again after a pause, in seconds."""

    pause_s: float
    why: str


def pause(attempt: int, luck: float) -> float:
    """Exponential back-off with jitter: `attempt` counts from 1, `luck` lies in [0, 1)."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 12)) * (0.5 + luck / 2)


def unreachable(error: Exception, attempt: int, luck: float) -> Again:
    """No answer: a refused, reset or timed-out connection."""
    return Again(pause(attempt, luck), f"the gateway cannot be reached ({type(error).__name__})")


def judge(
    status: int, headers: Mapping[str, str], body: bytes, *, sent: int, attempt: int, luck: float, now: datetime
) -> Done | Again:
    """The meaning of an answer to a batch of `sent` items, at the `attempt`-th try."""
    if 200 <= status < 300:
        return _accepted(body, sent)
    passing = status in (408, 425, 429, 502, 503, 504)
    if passing or (status >= 500 and attempt < BROKEN_TRIES):
        wish = retry_after(headers.get("retry-after", ""), now)
        return Again(max(wish or 0.0, pause(attempt, luck)), f"the gateway answered {status}")
    return Done(0, sent, f"the gateway answered {status}: {_message(body)}")


def _accepted(body: bytes, sent: int) -> Done:
    rejected = _json(body).get("rejected")
    if not isinstance(rejected, list) or not rejected:
        return Done(sent)
    refused = min(len(rejected), sent)
    first = rejected[0] if isinstance(rejected[0], dict) else {}
    error = first.get("error")
    words = error.get("message") if isinstance(error, dict) else error
    return Done(sent - refused, refused, f"the gateway refused it: {words}")


def retry_after(text: str, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None where it says nothing sensible."""
    text = text.strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WISH_S) if seconds == seconds else None  # noqa: PLR0124 - not NaN


def _json(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _message(body: bytes) -> str:
    error = _json(body).get("error")
    words = error.get("message") if isinstance(error, dict) else error
    return str(words or body[:200].decode(errors="replace") or "no reason given")
