"""How simulated users react to an answer: most say nothing, some turn the thumb, a few write it better.

A user's mood is drawn before the answer is seen, from the seed and the request's number: two runs with one seed meet
the same moods, whatever the model says.
"""

import random
from dataclasses import dataclass
from typing import Literal

from headrace_local.demo.world import Question, Style

Kind = Literal["silence", "thumb", "correction"]


@dataclass(frozen=True)
class Habits:
    """Shares of users."""

    silent: float = 0.6
    """Say nothing."""
    mistaken: float = 0.1
    """Of thumbs, turned over."""
    corrects: float = 0.1
    """Of those who say something about an answer they dislike, write the answer as it should have been."""


@dataclass(frozen=True)
class Mood:
    """What was drawn for one request."""

    silent: bool
    mistaken: bool
    corrects: bool
    phrasing: float
    """In [0, 1): which of the question's own answers a correction is."""


@dataclass(frozen=True)
class Reaction:
    """What a user does about one answer."""

    kind: Kind
    liked: bool
    """The truth, which only the demo's bookkeeping sees."""
    thumb: bool | None = None
    """As given, mistakes included."""
    correction: str | None = None


def mood(seed: int, request: int, habits: Habits) -> Mood:
    """The mood behind request number `request`."""
    drawn = random.Random(f"{seed}/{request}")  # noqa: S311 - simulated people
    return Mood(
        drawn.random() < habits.silent,
        drawn.random() < habits.mistaken,
        drawn.random() < habits.corrects,
        drawn.random(),
    )


def react(question: Question, answer: str, style: Style, mood: Mood) -> Reaction:
    """What a user in this mood does about this answer."""
    liked = style.likes(question, answer)
    if mood.silent:
        return Reaction("silence", liked)
    if mood.corrects and not liked:
        return Reaction("correction", liked, correction=question.answers[int(mood.phrasing * len(question.answers))])
    return Reaction("thumb", liked, thumb=liked != mood.mistaken)


def order(seed: int, questions: int, requests: int) -> list[int]:
    """Which question each request asks: all of them once before any is asked again, in an order of the seed's."""
    drawn = random.Random(f"{seed}/order")  # noqa: S311 - simulated people
    asked: list[int] = []
    while len(asked) < requests:
        deck = list(range(questions))
        drawn.shuffle(deck)
        asked += deck
    return asked[:requests]
