"""The charge for tokens: only on accepted answers, only above the median, and backing off when quality drops."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_reward.core.price import ENOUGH, WINDOW, Judged, Price, Window, charge
from headrace_schemas.policy import TokenCost

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AUTO = TokenCost(weight="auto", ceiling=0.3)


def judged(n, quality=1.0, tokens=10, segment=None) -> Judged:
    return Judged(NOW + timedelta(seconds=n), f"i{n}", quality, tokens, segment)


rows = st.lists(
    st.builds(
        judged,
        st.integers(0, 40),
        st.sampled_from([0.0, 0.4, 0.5, 1.0]),
        st.integers(1, 60),
        st.sampled_from([None, "a"]),
    ),
    unique_by=lambda row: row.inference_id,
)


@given(st.floats(0, 1), st.integers(0, 1000), st.floats(0, 100), st.floats(0, 1), st.floats(0, 1))
def test_a_charge_is_bounded_and_spares_failures_and_the_short(quality, tokens, median, weight, ceiling):
    off = charge(Price("d", weight, median), quality, tokens, ceiling)
    assert 0.0 <= off <= min(ceiling, quality)
    if quality < 0.5 or tokens <= median or median == 0:
        assert off == 0.0


def test_a_doubling_of_the_median_costs_the_weight():
    assert charge(Price("d", 0.2, 10), 1.0, 20, 0.3) == pytest.approx(0.2)
    assert charge(Price("d", 0.2, 10), 1.0, 15, 0.3) == pytest.approx(0.1)
    assert charge(Price("d", 0.2, 10), 1.0, 500, 0.3) == pytest.approx(0.2), "a longer one costs no more"


def test_the_median_is_over_accepted_answers_and_needs_enough_of_them():
    window = Window(judged(n, tokens=10) for n in range(ENOUGH - 1))
    assert window.price(TokenCost(weight=0.2), "d", None).median == 0
    window.put(judged(100, quality=0.0, tokens=1000))
    assert window.median() is None
    window.put(judged(101, tokens=10))
    assert window.price(TokenCost(weight=0.2), "d", None) == Price("d", 0.2, 10.0)


@settings(max_examples=100, deadline=None)
@given(rows, st.randoms())
def test_the_price_is_a_function_of_the_set_of_judged_answers(given_rows, random):
    straight = Window(given_rows)
    shuffled = given_rows * 2
    random.shuffle(shuffled)
    other = Window()
    for row in shuffled:
        other.put(row._replace(quality=0.1))  # an earlier judgement of the same answer
        other.put(row)
    assert other.price(AUTO, "d", "a") == straight.price(AUTO, "d", "a")
    assert other.pressure(0.3) == straight.pressure(0.3)


def test_only_the_newest_answers_count():
    window = Window(judged(n, tokens=100) for n in range(10))
    for n in range(10, 10 + WINDOW):
        window.put(judged(n, tokens=7))
    window.put(judged(0, tokens=100))
    assert len(window) == WINDOW and window.median() == 7


def test_pressure_rises_while_quality_holds_and_falls_when_it_drops():
    window = Window(judged(n) for n in range(60))
    risen = window.pressure(0.3)
    assert 0.2 < risen <= 0.3
    for n in range(60, 90):
        window.put(judged(n, quality=0.0))
    assert window.pressure(0.3) < risen
    assert Window(judged(n, quality=0.5) for n in range(200)).pressure(0.3) == 0.0


def test_segments_that_are_not_solved_pay_less():
    window = Window(
        [*(judged(n, segment="easy") for n in range(60)), *(judged(100 + n, 0.0, segment="hard") for n in range(4))]
    )
    assert window.price(AUTO, "d", "hard").weight < window.price(AUTO, "d", "easy").weight


def test_an_answer_that_nobody_judges_any_more_is_forgotten():
    window = Window(judged(n) for n in range(ENOUGH))
    window.drop(NOW, "i0")
    window.drop(NOW, "never there")
    assert len(window) == ENOUGH - 1
