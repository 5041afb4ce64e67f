"""Regular expressions from a policy file or a suite, over text that a model wrote: none may take the process hostage.

Python's `re` backtracks, holds the interpreter while it does, and cannot be stopped. A time limit would also make a
score depend on the machine's load. So a pattern is judged before it is used, and by its text alone:

- a repeat inside a repeat, back-references, and alternatives inside a repeat that may begin alike are refused: they are
  what takes exponential time;
- at most three open repeats that something follows, since each multiplies the time by the answer's length;
- an answer longer than the pattern's cost allows is not matched; the check then fails and says so.
"""

import functools
import re
from collections.abc import Iterable
from re import _constants as c  # type: ignore[attr-defined]  # the module has no public name since Python 3.11
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MAX_PATTERN = 1_000
MAX_ANSWER = (50_000, 50_000, 5_000, 600)
"""Characters of an answer, by the number of open repeats that something follows: about 0.2 s at the very worst."""
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_OPEN = 32
"""A repeat that may go so often counts as open."""


def pattern_problem(pattern: str) -> str | None:
    """None where `pattern` may be used, else why not, in one sentence."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern is longer than {MAX_PATTERN} characters"
    try:
        cost = _cost(pattern)
    except re.error as error:
        return f"not a regular expression: {error}"
    except (OverflowError, RecursionError):
        return "the pattern is nested or repeated beyond what can be matched"
    except _Refused as refused:
        return str(refused)
    if cost >= len(MAX_ANSWER):
        return f"the pattern has {cost} open repeats with something after them; at most {len(MAX_ANSWER) - 1} may be"
    return None


def matches(pattern: str, text: str) -> str | None:
    """None where the stripped `text` matches `pattern` from its start, else why not. The pattern must be a usable one.

    Raises ValueError for a pattern that `pattern_problem` refuses.
    """
    problem = pattern_problem(pattern)
    if problem:
        raise ValueError(problem)
    answer, limit = text.strip(), MAX_ANSWER[_cost(pattern)]
    if len(answer) > limit:
        return f"{len(answer)} characters are more than the {limit} that this pattern may look at"
    return None if re.match(pattern, answer) else "it does not match the pattern"


class _Refused(ValueError):
    pass


@functools.lru_cache(maxsize=1024)
def _cost(pattern: str) -> int:
    """How many open repeats with something after them there are; refuses what may take exponential time."""
    return _walk(list(parser.parse(pattern)), inside=False, followed=False)


def _walk(items: list[tuple[Any, Any]], *, inside: bool, followed: bool) -> int:
    """Cost of a sequence. `inside`: in a repeat; `followed`: something comes after the sequence."""
    cost = 0
    for n, (op, argument) in enumerate(items):
        more = followed or any(later is not c.AT or what is not c.AT_BEGINNING for later, what in items[n + 1 :])
        if op in _REPEATS:
            low, high, body = argument
            if high <= 1:
                cost += _walk(list(body), inside=inside, followed=more)
                continue
            if inside:
                raise _Refused("a repeat inside a repeat can take for ever: write it without the inner or outer one")
            cost += _walk(list(body), inside=True, followed=True)
            cost += int(high >= _OPEN and high != low and more)
        elif op is c.BRANCH:
            alternatives = [list(branch) for branch in argument[1]]
            if inside and not _begin_differently(alternatives):
                raise _Refused("alternatives inside a repeat must begin with different letters, or it can take for ever")
            cost += max(_walk(branch, inside=inside, followed=more) for branch in alternatives)
        elif op is c.SUBPATTERN:
            cost += _walk(list(argument[3]), inside=inside, followed=more)
        elif op is c.ATOMIC_GROUP:
            cost += _walk(list(argument), inside=inside, followed=more)
        elif op in (c.ASSERT, c.ASSERT_NOT):
            cost += _walk(list(argument[1]), inside=inside, followed=True)
        elif op in (c.GROUPREF, c.GROUPREF_IGNORE, c.GROUPREF_EXISTS):
            raise _Refused("back-references are not taken: they can take for ever")
    return cost


def _begin_differently(alternatives: Iterable[list[tuple[Any, Any]]]) -> bool:
    firsts = [branch[0] if branch else None for branch in alternatives]
    letters = [first[1] for first in firsts if first is not None and first[0] is c.LITERAL]
    return len(letters) == len(firsts) and len(set(letters)) == len(letters)
