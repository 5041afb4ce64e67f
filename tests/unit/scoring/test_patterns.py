"""Patterns that could take a process hostage are refused, by their text alone; the others stay quick."""

import time

import pytest

from headrace_scoring.patterns import LONGEST, _longest_answer, matches, pattern_problem

HOSTILE = [
    r"(a+)+b",
    r"(a*)*b",
    r"(a|a)*b",
    r"(ab|a.)*c",
    r"(?i)(Ab|aC)*x",
    r"(\w+\s+){1,5}x",
    r"(a)\1",
    r"(?:x?){100}",
    "(?:a?){30}a{30}",
    "a?" * 30 + "a" * 30,
    "(ab|a)" * 40 + "c",
    r".*.*.*.*x",
    "(" * 500 + "a" + ")" * 500,
    "a" * 1001,
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_are_refused_in_words(pattern):
    problem = pattern_problem(pattern)
    if problem is None:  # deep groups without a repeat cost nothing
        assert _longest_answer(pattern) == LONGEST and "(((" in pattern
    else:
        with pytest.raises(ValueError, match=".+"):
            matches(pattern, "a")


@pytest.mark.parametrize("pattern", ["[", "*", "(?P<a>x", "(?<=a+)b"])
def test_what_is_no_regular_expression_is_refused(pattern):
    assert "not a regular expression" in (pattern_problem(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "text", "matching"),
    [
        (r"(Yes|No)[,.] ", "No, it did not.", True),
        (r".*order #\d+", "about order #12", True),
        (r"\w+@\w+\.com", "me@here.org", False),
        (r"(foo|bar)*x", "foobarfoox", True),
        (r"\d{1,3}(,\d{3})*(\.\d+)? EUR", "1,234.50 EUR", True),
        (r"(?s).*(yes|no|maybe).*(tomorrow|today)", "yes,\nit comes today", True),
        (r"(?=.*refund)(?=.*order).*", "an order, a refund", True),
    ],
)
def test_ordinary_patterns_work(pattern, text, matching):
    assert (matches(pattern, text) is None) is matching


@pytest.mark.parametrize(
    "pattern", [r".*a.*b", r".*a.*a.*b", r".*.*.*b", r"(a|b).*a\w+b", r"(foo|bar|a)*b", r"\w+\w+\w+b"]
)
def test_the_worst_answer_a_pattern_may_look_at_takes_no_time_to_speak_of(pattern):
    answer = "a" * _longest_answer(pattern)
    started = time.perf_counter()
    assert matches(pattern, answer)
    assert time.perf_counter() - started < 5  # about 0.1 s here; exponential would be for ever


def test_a_longer_answer_fails_and_the_reason_says_so():
    assert "more than" in (matches(r".*a.*a.*b", "a" * 1000) or "")
