"""Small words, the guard's names, and what the read model keeps of an event."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import headrace_console
from headrace_console.core import fold
from headrace_console.core.words import ago, count, evidence, plural, share, tokens
from headrace_console.guard import host_name
from headrace_console.settings import ConsoleSettings
from headrace_schemas import FeedbackRecorded, InferenceCompleted

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ENGINE = {"base_model": "b"}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "just now"),
        (0, "just now"),
        (12, "12 s ago"),
        (300, "5 min ago"),
        (7200, "2 h ago"),
        (400_000, "5 days ago"),
    ],
)
def test_times_are_relative_in_one_unit(seconds, said):
    assert ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_numbers_in_words():
    assert ago(None, NOW) == "never"
    assert count(1_234_567) == "1\u202f234\u202f567"
    assert (plural(1, "run"), plural(2, "run"), plural(0, "trajectory", "trajectories")) == (
        "1 run",
        "2 runs",
        "0 trajectories",
    )
    assert (share(None), share(0.5), tokens(12.34), tokens(1234.5)) == ("\u2013", "0.50", "12.3", "1234")
    assert (evidence(3.14), evidence(34.2), evidence(48_000)) == ("3.1 : 1", "34 : 1", "5·10^4 : 1")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:80", "localhost"),
        ("[::1]:80", "::1"),
        ("::1", "::1"),
        ("A.example", "a.example"),
        ("", ""),
        ("[", ""),
    ],
)
def test_the_name_in_a_host_header(header, name):
    assert host_name(header) == name


def inference(**fields):
    required = {"occurred_at": NOW, "inference_id": "i", "episode_id": "e", "policy": "p", "policy_version": 0}
    return InferenceCompleted(**required | {"engine": ENGINE, "state": "completed", "latency_s": 1.0} | fields)


def test_the_question_is_the_newest_thing_that_the_user_said():
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": [{"type": "text", "text": "and this"}, {"type": "image_url"}]},
        {"role": "tool", "content": "42"},
    ]
    assert fold.question(inference(messages=messages)) == "and this"
    assert fold.question(inference(prompt="plain")) == "plain"
    assert fold.question(inference(messages=[{"role": "user"}])) == ""


@given(st.text(max_size=2000))
def test_an_excerpt_is_short_and_has_nothing_that_a_database_refuses(text):
    kept = fold.excerpt(text)
    assert len(kept) <= fold.EXCERPT
    assert "\x00" not in kept


@given(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.dictionaries(st.text(), st.text())
)
def test_every_value_of_feedback_has_a_short_form(value):
    event = FeedbackRecorded(
        occurred_at=NOW,
        recorded_at=NOW,
        feedback_id="f",
        revision=1,
        sequence=1,
        inference_id="i",
        metric_name="m",
        value=value,
    )
    row = fold.feedback(event)
    assert len(row["value"]) <= fold.EXCERPT
    assert row["positive"] is (value if isinstance(value, bool) else None)


def test_a_console_that_others_can_reach_needs_a_token():
    with pytest.raises(ValidationError, match="CONSOLE_TOKEN"):
        ConsoleSettings(host="0.0.0.0")
    settings = ConsoleSettings(host="0.0.0.0", token="t" * 16, allowed_hosts="A.example, b.example")
    assert {"a.example", "b.example", "localhost"} <= settings.hosts()


def test_vendored_files_are_what_they_were():
    folder = Path(headrace_console.__file__).parent / "static"
    rows = re.findall(r"\| `([^`]+)` \|.*?`([0-9a-f]{64})`", (folder / "VENDORED.md").read_text())
    assert rows
    for name, digest in rows:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
