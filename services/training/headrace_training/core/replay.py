"""Which older events join a run's new ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Used(Protocol):
    """What replay looks at."""

    @property
    def reward(self) -> float | None: ...
    @property
    def demonstration(self) -> str | None: ...


@dataclass(frozen=True)
class Limits:
    """The recipe's part in it."""

    events: int
    uses: int


def replayed(older: Sequence[tuple[Used, int]], limits: Limits) -> list[int]:
    """Indices into `older` (sample, runs it took part in; newest first) of those to learn from once more.

    Corrections and liked answers say where to go, and stay true when the policy has moved. A disliked answer of an
    older version is one that the policy hardly gives any more: it costs a forward pass and teaches nothing.
    """
    worth = [
        i
        for i, (sample, uses) in enumerate(older)
        if uses < limits.uses and (sample.demonstration is not None or (sample.reward or 0.0) > 0.5)
    ]
    corrections_first = sorted(worth, key=lambda i: (older[i][0].demonstration is None, i))
    return sorted(corrections_first[: limits.events])
