"""How the command reads names and values, and how it shows what others wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_cli.__main__ import run
from headrace_cli.calls import sentence
from headrace_cli.errors import Problem
from headrace_cli.feedback import read_value
from headrace_cli.names import parse
from headrace_cli.policies import moved
from headrace_cli.screen import clean, when


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("support@v3", ("support", "v3")),
        ("support@3", ("support", "3")),
        ("support@champion", ("support", "champion")),
        ("support@base", ("support", "0")),
        ("support", ("support", None)),
    ],
)
def test_names_of_versions(text, named):
    assert parse(text) == named


@pytest.mark.parametrize("text", ["", "@v1", "support@", "support@v", "Support@v1", "support@v1@v2", "a b", "../x@v1"])
def test_what_can_be_no_name_is_refused(text):
    with pytest.raises(Problem) as caught:
        parse(text)
    assert caught.value.status == 2


@pytest.mark.parametrize(
    ("metric", "text", "value"),
    [
        ("accepted", "true", True),
        ("edited", "0.8", 0.8),
        ("mood", "fine", "fine"),
        ("accepted", "null", None),
        ("comment", "42", "42"),
        ("demonstration", "true", "true"),
        ("comparison", '{"chosen": "a", "rejected": "b"}', {"chosen": "a", "rejected": "b"}),
    ],
)
def test_values_of_feedback(metric, text, value):
    assert read_value(metric, text) == value


@given(st.text())
def test_nothing_that_somebody_wrote_reaches_the_terminal_as_a_code(text):
    assert "\x1b" not in clean(text)
    assert "\x9b" not in clean(text)


def test_sentences_end_and_times_have_both_forms():
    assert sentence("no such thing") == "No such thing."
    assert sentence("What now?") == "What now?"
    assert when(None) == "\u2013"
    assert when("2026-12-01T10:00:00+01:00").startswith("2026-12-01 09:00 UTC (")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["versionz"], "Did you mean 'versions'?"),
        (["promote"], "Missing argument"),
        (["versions", "list", "--nope"], "`headrace versions list --help` shows how"),
        (["logs", "x", "-n", "many"], "a valid integer"),
    ],
)
def test_a_misspelt_command_is_one_sentence_and_status_two(capsys, arguments, words):
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        [], ["up"], ["down"], ["status"], ["doctor"], ["demo"], ["apply"], ["feedback"], ["promote"], ["rollback"], ["explain"],
        ["logs"], ["bench"], ["versions"], ["versions", "list"], ["versions", "show"], ["evals", "push"], ["evals", "list"],
        ["keys", "create"], ["keys", "list"], ["keys", "revoke"],
    ],
)  # fmt: skip
def test_every_command_has_a_help_of_its_own(capsys, command):
    assert run([*command, "--help"]) == 0
    assert "Usage: headrace" in capsys.readouterr().out


def test_a_move_that_waits_says_for_what(capsys):
    moved(
        "support",
        {
            "status": "preparing",
            "version": 1,
            "epoch": 7,
            "waits_for": "support@v1-0123456789ab is not ready on r1",
            "route": {"champion": {"version": 0}},
        },
    )
    said = capsys.readouterr().out
    assert "(support@v1-0123456789ab is not ready on r1)" in said
    assert "the base model answers" in said
