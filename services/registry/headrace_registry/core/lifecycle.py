"""The states of an adapter version and the moves between them. Whether a move may be made is decided here only."""

from enum import StrEnum


class State(StrEnum):
    """Where a version stands."""

    REGISTERED = "registered"
    """It has a number; engines load it, the gate judges it."""
    EVALUATED = "evaluated"
    """It has a gate report."""
    CANARY = "canary"
    """It answers a share of requests."""
    CHAMPION = "champion"
    """It answers requests for the policy."""
    RETIRED = "retired"
    """It was champion, and a better one came."""
    REJECTED = "rejected"
    """It did not pass: the gate, a probe, the fence, or the deadline."""
    QUARANTINED = "quarantined"
    """It was rolled back, and only a person brings it back."""


S = State
MOVES: dict[State, frozenset[State]] = {
    S.REGISTERED: frozenset({S.EVALUATED, S.REJECTED}),
    S.EVALUATED: frozenset({S.CANARY, S.CHAMPION, S.REJECTED}),
    S.CANARY: frozenset({S.CHAMPION, S.REJECTED, S.QUARANTINED}),
    S.CHAMPION: frozenset({S.RETIRED, S.QUARANTINED}),
    S.RETIRED: frozenset({S.CHAMPION}),
    S.REJECTED: frozenset(),
    S.QUARANTINED: frozenset(),
}
"""What happens by itself, and by people who have a gate report or go back to an old champion."""

FORCED: dict[State, frozenset[State]] = {
    S.REGISTERED: frozenset({S.CHAMPION}),
    S.REJECTED: frozenset({S.CHAMPION}),
    S.QUARANTINED: frozenset({S.CHAMPION}),
}
"""What a person may do besides, with a reason that the audit keeps."""


def allowed(state: State, to: State, *, forced: bool = False) -> bool:
    """Whether a version in `state` may become `to`."""
    return to in MOVES[state] or (forced and to in FORCED.get(state, frozenset()))
