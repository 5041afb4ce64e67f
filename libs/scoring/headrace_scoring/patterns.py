"""Regular expressions from a policy file or a suite, over text that a model wrote: none may take the process hostage.

Python's `re` backtracks, holds the interpreter while it does, and cannot be stopped. A time limit would also make a
score depend on the machine's load. So a pattern is judged before it is used, and by its text alone:

- what takes exponential time is refused: a repeat or an option inside a repeat, back-references, and alternatives
  inside a repeat that may begin alike;
- what is left takes at most about `ways · n^k / k!` steps over n characters: k open repeats with something after them,
  and `ways` combinations of options, alternatives and counted repeats. That and a budget of steps give the longest
  answer that a pattern may look at; a longer one fails the check, and the reason says so. Patterns that could look at
  less than 200 characters are refused.
"""

import functools
import math
import re
from re import _constants as c  # type: ignore[attr-defined]  # the module has no public name since Python 3.11
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MAX_PATTERN = 1_000
STEPS = 20_000_000
"""A fifth of a second, about, for the worst answer to the worst pattern."""
SHORTEST, LONGEST = 200, 50_000
"""Bounds in characters of the answer that a pattern may look at."""
_OPEN = 32
"""A repeat that may differ by so much counts as open."""


def pattern_problem(pattern: str) -> str | None:
    """None where `pattern` may be used, else why not, in one sentence."""
    try:
        _longest_answer(pattern)
    except _Refused as refused:
        return str(refused)
    return None


def matches(pattern: str, text: str) -> str | None:
    """None where the stripped `text` matches `pattern` from its start, else why not.

    Raises ValueError for a pattern that `pattern_problem` refuses.
    """
    answer, limit = text.strip(), _longest_answer(pattern)
    if len(answer) > limit:
        return f"{len(answer)} characters are more than the {limit} that this pattern may look at"
    return None if re.match(pattern, answer) else "it does not match the pattern"


class _Refused(ValueError):
    pass


class _Cost(NamedTuple):
    """Steps over n characters: about ways · n^k / k!"""

    k: int = 0
    ways: int = 1

    def times(self, other: "_Cost", count: int = 1) -> "_Cost":
        return _Cost(self.k + other.k * count, min(self.ways * min(other.ways, STEPS) ** min(count, 64), STEPS))


@functools.lru_cache(maxsize=1024)
def _longest_answer(pattern: str) -> int:
    if len(pattern) > MAX_PATTERN:
        raise _Refused(f"the pattern is longer than {MAX_PATTERN} characters")
    try:
        cost = _walk(list(parser.parse(pattern)), inside=False, followed=False)
        re.compile(pattern)
    except re.error as error:
        raise _Refused(f"not a regular expression: {error}") from None
    except (OverflowError, RecursionError):
        raise _Refused("the pattern is nested or repeated beyond what can be matched") from None
    if cost.k == 0:
        longest = LONGEST if cost.ways * 100 <= STEPS else 0
    else:
        longest = int((STEPS / cost.ways * math.factorial(min(cost.k, 20))) ** (1 / cost.k)) if cost.k < 6 else 0
    if longest < SHORTEST:
        raise _Refused("the pattern can match in too many ways: use fewer open repeats, options and alternatives")
    return min(longest, LONGEST)


def _walk(items: list[tuple[Any, Any]], *, inside: bool, followed: bool) -> _Cost:
    """Cost of a sequence. `inside`: in a repeat; `followed`: something that may fail comes after it."""
    total = _Cost()
    for n, (op, argument) in enumerate(items):
        total = total.times(_cost(op, argument, inside=inside, followed=followed or n + 1 < len(items)))
    return total


def _cost(op: Any, argument: Any, *, inside: bool, followed: bool) -> _Cost:
    if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
        return _repeat(*argument, inside=inside, followed=followed)
    if op is c.BRANCH:
        branches = [list(branch) for branch in argument[1]]
        if inside and not _begin_differently(branches):
            raise _Refused("alternatives inside a repeat must begin with different letters, or it can take for ever")
        costs = [_walk(branch, inside=inside, followed=followed) for branch in branches]
        return _Cost(max(cost.k for cost in costs), 1 if inside else min(sum(cost.ways for cost in costs), STEPS))
    if op is c.SUBPATTERN:
        return _walk(list(argument[3]), inside=inside, followed=followed)
    if op is c.ATOMIC_GROUP:
        return _walk(list(argument), inside=inside, followed=followed)
    if op in (c.ASSERT, c.ASSERT_NOT):
        return _walk(list(argument[1]), inside=inside, followed=True)
    if op in (c.GROUPREF, c.GROUPREF_EXISTS):
        raise _Refused("back-references are not taken: they can take for ever")
    return _Cost()


def _repeat(low: int, high: int, body: Any, *, inside: bool, followed: bool) -> _Cost:
    if low == high:
        return _Cost().times(_walk(list(body), inside=inside, followed=followed or high > 1), int(high))
    if inside:
        raise _Refused("a repeat or an option inside a repeat can take for ever: write one of them away")
    once = high <= 1
    cost = _walk(list(body), inside=not once, followed=followed or not once)
    if not followed:
        return cost
    if high - low >= _OPEN:
        return cost.times(_Cost(k=1))
    return cost.times(_Cost(ways=int(high - low) + 1))


def _begin_differently(branches: list[list[tuple[Any, Any]]]) -> bool:
    letters = [chr(branch[0][1]).casefold() for branch in branches if branch and branch[0][0] is c.LITERAL]
    return len(letters) == len(branches) == len(set(letters))
