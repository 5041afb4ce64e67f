"""What an answer means."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.delivery import BROKEN_TRIES, LONGEST_PAUSE_S, LONGEST_WISH_S, Again, Done, judge, pause, retry_after

NOW = datetime(2026, 12, 1, 10, 0, 0, tzinfo=UTC)


def judged(status, body=b"", headers=None, attempt=1):
    return judge(status, headers or {}, body, sent=3, attempt=attempt, luck=0.5, now=NOW)


def test_an_accepted_batch_is_done():
    assert judged(202, b'{"accepted": 3, "rejected": []}') == Done(3)


def test_what_the_gateway_refuses_is_counted_and_never_sent_again():
    body = b'{"accepted": 2, "rejected": [{"index": 1, "error": {"message": "value: a number please", "code": "x"}}]}'
    assert judged(202, body) == Done(2, 1, "the gateway refused it: value: a number please")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"rejected": 7}', b'{"rejected": [null]}'])
def test_any_2xx_ends_a_batch_whatever_it_says(body):
    assert isinstance(judged(200, body), Done)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_passes_is_tried_for_ever(status):
    assert isinstance(judged(status, attempt=1000), Again)


def test_a_batch_that_breaks_the_gateway_is_given_up_lest_it_block_the_rest():
    assert isinstance(judged(500, attempt=BROKEN_TRIES - 1), Again)
    assert judged(500, attempt=BROKEN_TRIES).refused == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_is_final_and_says_why(status):
    assert judged(status, b'{"error": {"message": "no such key"}}').why == f"the gateway answered {status}: no such key"


def test_the_wish_of_the_gateway_is_honoured():
    assert judged(429, headers={"retry-after": "7"}).pause_s == 7.0
    assert judged(503, headers={"retry-after": "Tue, 01 Dec 2026 10:00:09 GMT"}).pause_s == 9.0
    assert retry_after("86400", NOW) == LONGEST_WISH_S


@pytest.mark.parametrize("text", ["", "soon", "nan", "Tue, 99 Dec"])
def test_a_wish_that_is_none_is_passed_over(text):
    assert retry_after(text, NOW) is None


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_stay_bounded(attempt, luck):
    assert 0 < pause(attempt, luck) <= LONGEST_PAUSE_S
    assert pause(attempt, luck) <= pause(attempt + 1, luck)
