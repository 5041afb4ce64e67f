"""A rule on the text of an answer, scored: the mean over the checks that are set, each with its reason in words.

Used by reward (the policy file's `rule` parts) and by evaluation (a suite's cases), so that one hill is climbed and
measured. A blank answer meets no check: otherwise silence would be the cheapest way to be short and plain.
"""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace_schemas.policy import Rule
from headrace_scoring.patterns import matches, pattern_problem
from headrace_scoring.words import count_lines, count_words, holds_word, markup

Outcome = tuple[bool, str]
"""Whether the check is met, and why in words."""


class Check(NamedTuple):
    """One check's outcome."""

    name: str
    """The rule's field."""
    met: bool
    because: str


class RuleScore(NamedTuple):
    """What a rule says of an answer."""

    value: float
    """Share of the checks that are met, in [0, 1]."""
    checks: tuple[Check, ...]

    @property
    def met(self) -> bool:
        """Whether every check is met."""
        return all(check.met for check in self.checks)

    @property
    def because(self) -> str:
        """One line for a breakdown: every check with its reason."""
        return "; ".join(f"{c.name} {'met' if c.met else 'not met'} ({c.because})" for c in self.checks)


def score_rule(rule: Rule, answer: str) -> float:
    """The share of the rule's checks that `answer` meets, in [0, 1]. Pure; the same for ever for the same text.

    Raises ValueError for a pattern that `rule_problem` refuses.
    """
    return judge_rule(rule, answer).value


def judge_rule(rule: Rule, answer: str) -> RuleScore:
    """The score with each check's reason. Raises ValueError as `score_rule` does."""
    if answer.strip():
        checks = tuple(Check(name, *CHECKS[name](rule, answer)) for name in checks_of(rule))
    else:
        checks = tuple(Check(name, False, "the answer is blank") for name in checks_of(rule))
    return RuleScore(sum(c.met for c in checks) / len(checks), checks)


def checks_of(rule: Rule) -> Iterator[str]:
    """Names of the checks that are set, in the policy file's order. A check is set by any value but its default."""
    return (name for name in CHECKS if getattr(rule, name) != Rule.model_fields[name].default)


def rule_problem(rule: Rule) -> str | None:
    """None where the rule can be scored, else why not: to be asked when a policy or a suite comes in."""
    return pattern_problem(rule.matches) if rule.matches is not None else None


def max_words(rule: Rule, answer: str) -> Outcome:
    assert rule.max_words is not None
    count = count_words(answer)
    return count <= rule.max_words, f"{count} of at most {rule.max_words} words"


def min_words(rule: Rule, answer: str) -> Outcome:
    assert rule.min_words is not None
    count = count_words(answer)
    return count >= rule.min_words, f"{count} of at least {rule.min_words} words"


def one_line(_: Rule, answer: str) -> Outcome:
    count = count_lines(answer)
    return count <= 1, f"{count} line{'' if count == 1 else 's'}"


def no_markdown(_: Rule, answer: str) -> Outcome:
    found = markup(answer)
    return found is None, f"it has {found}" if found else "plain text"


def must_contain(rule: Rule, answer: str) -> Outcome:
    folded = answer.casefold()
    missing = [text for text in rule.must_contain if text.casefold() not in folded]
    return not missing, f"lacks {_quoted(missing)}" if missing else f"has {_quoted(rule.must_contain)}"


def any_of(rule: Rule, answer: str) -> Outcome:
    found = next((word for word in rule.any_of if holds_word(answer, word)), None)
    return found is not None, f"has {_quoted([found])}" if found else f"has none of {_quoted(rule.any_of)}"


def must_not_contain(rule: Rule, answer: str) -> Outcome:
    folded = answer.casefold()
    found = [text for text in rule.must_not_contain if text.casefold() in folded]
    return not found, f"has {_quoted(found)}" if found else f"lacks {_quoted(rule.must_not_contain)}"


def matches_pattern(rule: Rule, answer: str) -> Outcome:
    assert rule.matches is not None
    problem = matches(rule.matches, answer)
    return problem is None, problem or "it matches the pattern"


def valid_json(_: Rule, answer: str) -> Outcome:
    try:
        json.loads(answer, parse_constant=_refuse)
    except RecursionError:
        return False, "JSON nested too deep"
    except ValueError as error:
        return False, f"not JSON: {error}"
    return True, "JSON"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _quoted(texts: "list[str] | tuple[str, ...] | list[str | None]") -> str:
    return ", ".join(f"“{text}”" for text in texts[:5]) + (", …" if len(texts) > 5 else "")


CHECKS: dict[str, Callable[[Rule, str], Outcome]] = {
    "max_words": max_words,
    "min_words": min_words,
    "one_line": one_line,
    "no_markdown": no_markdown,
    "must_contain": must_contain,
    "any_of": any_of,
    "must_not_contain": must_not_contain,
    "matches": matches_pattern,
    "valid_json": valid_json,
}
"""Every check, under the name of the rule's field."""
