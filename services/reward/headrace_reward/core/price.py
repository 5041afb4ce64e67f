"""What an accepted answer is charged for its tokens (research: algorithms §4.2).

    reward = quality - weight · clip((tokens - median) / median, 0, 1)     where quality ≥ ½; at most the ceiling

The median is over accepted answers, so no failure is charged and nothing is paid for brevity below the median. With
`weight: auto` the weight is λ·v̂: λ rises while recent quality is above the target and falls when it drops below,
v̂ is how often the segment's answers are accepted. All of it is a function of a *set*, the newest 256 judged answers
of the policy by the time they were given, so repeated or reordered events cannot move it. The price that an answer
gets is the one of the moment when it was first judged, and later revisions keep it.
"""

import bisect
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headrace_schemas.policy import TokenCost

WINDOW = 256
"""Judged answers that a price looks back on."""
RECENT = 32
"""Judged answers that λ's quality is averaged over."""
ENOUGH = 8
"""Accepted answers below which there is no median to speak of, and no charge."""
ACCEPTED = 0.5
"""Quality from which an answer counts as accepted."""
TARGET = 0.7
"""Quality at which λ stands still: a tenth of flipped thumbs turns 0.8 into 0.74."""
RATE = 0.02
"""λ's step for one answer and a full unit of quality above the target."""
PRIOR = 4.0
"""Answers that the policy's own acceptance weighs in a segment's."""


class Judged(NamedTuple):
    """One answer that has a reward. Ordered by when it was given."""

    answered_at: datetime
    inference_id: str
    quality: float
    """The reward before the charge."""
    tokens: int
    segment: str | None


@dataclass(frozen=True, slots=True)
class Price:
    """What a doubling of the median costs, fixed for one trajectory when it is first judged."""

    spec_digest: str
    weight: float = 0.0
    median: float = 0.0
    """Tokens of the median accepted answer; 0 where there were too few."""


class Window:
    """The newest judged answers of one policy."""

    def __init__(self, judged: Iterable[Judged] = ()) -> None:
        self._rows = sorted(judged)[-WINDOW:]

    def put(self, judged: Judged) -> None:
        """Add an answer or replace what is known of it."""
        self.drop(judged.answered_at, judged.inference_id)
        bisect.insort(self._rows, judged)
        del self._rows[:-WINDOW]

    def drop(self, answered_at: datetime, inference_id: str) -> None:
        """Forget an answer that nobody judges any more."""
        at = bisect.bisect_left(self._rows, (answered_at, inference_id))
        if at < len(self._rows) and self._rows[at][:2] == (answered_at, inference_id):
            del self._rows[at]

    def price(self, cost: TokenCost, spec_digest: str, segment: str | None) -> Price:
        """The price that an answer of `segment` gets now."""
        median = self.median()
        if median is None:
            return Price(spec_digest)
        weight = self.pressure(cost.ceiling) * self._solved(segment) if cost.weight == "auto" else cost.weight
        return Price(spec_digest, float(weight), median)

    def __len__(self) -> int:
        return len(self._rows)

    def median(self) -> float | None:
        """Tokens of the median accepted answer; None while there are too few."""
        lengths = [row.tokens for row in self._rows if row.quality >= ACCEPTED]
        return float(statistics.median(lengths)) if len(lengths) >= ENOUGH else None

    def pressure(self, ceiling: float) -> float:
        """λ in [0, ceiling]: the dual variable of "as short as quality allows"."""
        pressure, recent = 0.0, deque[float](maxlen=RECENT)
        for row in self._rows:
            recent.append(row.quality)
            if len(recent) >= ENOUGH:
                pressure += RATE * (sum(recent) / len(recent) - TARGET)
                pressure = min(max(pressure, 0.0), ceiling)
        return pressure

    def _solved(self, segment: str | None) -> float:
        """Mean quality of the segment, shrunk towards the policy's."""
        overall = sum(row.quality for row in self._rows) / len(self._rows)
        own = [row.quality for row in self._rows if row.segment == segment]
        return (sum(own) + PRIOR * overall) / (len(own) + PRIOR)


def charge(price: Price, quality: float, tokens: int, ceiling: float) -> float:
    """What is taken off, in [0, ceiling]: nothing for failures, nothing at or below the median."""
    if quality < ACCEPTED or price.median <= 0:
        return 0.0
    excess = min(max((tokens - price.median) / price.median, 0.0), 1.0)
    return max(0.0, min(price.weight * excess, ceiling, quality))
