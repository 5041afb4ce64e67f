"""What each check takes and refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_schemas.policy import Rule
from headrace_scoring import count_words, judge_rule, rule_problem, score_rule
from headrace_scoring.rules import CHECKS


def test_a_rule_scores_the_mean_of_the_checks_that_are_set():
    rule = Rule(max_words=3, one_line=True, must_contain=("kettle",))
    assert score_rule(rule, "Your Kettle left.") == 1.0
    assert score_rule(rule, "It left the house\ntoday.") == pytest.approx(0.0)
    assert score_rule(rule, "kettle\nkettle") == pytest.approx(2 / 3)
    judged = judge_rule(rule, "kettle\nkettle")
    assert not judged.met and "one_line not met (2 lines)" in judged.because


def test_there_is_a_check_for_every_field_of_a_rule():
    assert set(CHECKS) == set(Rule.model_fields)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("one", 1),
        ("it's 24/7 – really", 3),
        ("  - a\n* b\tc ", 3),
        ("— … !", 0),
        ("déjà vu\u00a0ici", 3),
        ("well-known", 1),
    ],
)
def test_a_word_is_a_run_with_a_letter_or_a_digit(text, words):
    assert count_words(text) == words


@pytest.mark.parametrize("answer", ["", "   ", "\n\t"])
def test_a_blank_answer_meets_no_check(answer):
    assert score_rule(Rule(max_words=5, no_markdown=True, must_not_contain=("x",)), answer) == 0.0


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"max_words": 2}, "two words", "now three words"),
        ({"min_words": 2}, "two words", "one"),
        ({"one_line": True}, "one line\n", "two\nlines"),
        ({"one_line": True}, " one ", "two\u2028lines"),
        ({"must_contain": ["Straße"]}, "die STRASSE", "der Weg"),
        ({"any_of": ["refund", "money back"]}, "A Refund is due", "refunds are due"),
        ({"any_of": ["refund", "money back"]}, "your money back!", "your money is back"),
        ({"must_not_contain": ["sorry"]}, "Done.", "So sorry!"),
        ({"matches": r"(Yes|No)\b"}, "  Yes, it did.", "Oh yes"),
        ({"valid_json": True}, ' {"a": [1]} ', "{'a': 1}"),
        ({"valid_json": True}, "1", '{"a": NaN}'),
        ({"valid_json": True}, "null", "[" * 100_000),
        ({"no_markdown": True}, "A plain - dashed, 3 * 4 = 12 snake_case_name.", "**bold**"),
        ({"no_markdown": True}, "It costs 3.50 today. #1 choice, >90 %", "# Heading"),
        ({"no_markdown": True}, "a_b_c and x*y*z", "- item"),
        ({"no_markdown": True}, "Call 1. floor", "1. first\n2. second"),
        ({"no_markdown": True}, "see (this) [note]", "[link](http://x)"),
        ({"no_markdown": True}, "plain", "```\ncode\n```"),
        ({"no_markdown": True}, "plain", "an *emphasised* word"),
        ({"no_markdown": True}, "plain", "say `ls`"),
        ({"no_markdown": True}, "plain", "| a | b |"),
        ({"no_markdown": True}, "plain", "> quoted"),
    ],
)
def test_each_check_takes_the_good_and_refuses_the_bad(rule, good, bad):
    assert score_rule(Rule.model_validate(rule), good) == 1.0
    assert score_rule(Rule.model_validate(rule), bad) == 0.0


@given(st.text(max_size=300))
def test_any_text_gets_a_score_between_0_and_1_and_the_same_again(text):
    rule = Rule(
        max_words=5,
        min_words=1,
        one_line=True,
        no_markdown=True,
        must_contain=("a",),
        any_of=("b c", "d"),
        must_not_contain=("e",),
        matches=r"\w+.*x",
        valid_json=True,
    )
    score = score_rule(rule, text)
    assert 0.0 <= score <= 1.0 and score == score_rule(rule, text)


def test_a_pattern_that_may_not_be_used_is_a_problem_of_its_rule():
    assert rule_problem(Rule(max_words=3)) is None
    assert "repeat" in (rule_problem(Rule(matches="(a+)+b")) or "")
    with pytest.raises(ValueError):
        score_rule(Rule(matches="(a+)+b"), "aaa")
