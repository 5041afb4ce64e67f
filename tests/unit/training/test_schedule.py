from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace_training.core.schedule import batches, micro_batches, rate

passes = st.lists(st.integers(0, 5), max_size=40)


@given(passes, st.integers(1, 9), st.integers(0, 99))
def test_every_example_is_used_as_often_as_it_asked(passes, size, seed):
    used = Counter(i for batch in batches(passes, size, seed) for i in batch)
    assert [used[i] for i in range(len(passes))] == passes


@given(passes, st.integers(1, 9), st.integers(0, 99))
def test_batches_are_no_larger_than_asked_and_the_same_for_the_same_seed(passes, size, seed):
    result = batches(passes, size, seed)
    assert all(1 <= len(batch) <= size for batch in result)
    assert result == batches(passes, size, seed)


def test_no_step_is_made_of_a_single_leftover():
    assert [len(b) for b in batches([1] * 9, 8, 0)] in ([4, 5], [5, 4])


@given(st.lists(st.integers(1, 99), min_size=1, max_size=20), st.integers(1, 8))
def test_micro_batches_hold_the_batch_by_falling_length(lengths, size):
    parts = micro_batches(range(len(lengths)), lengths, size)
    flat = [lengths[i] for part in parts for i in part]
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    assert flat == sorted(flat, reverse=True)


def test_the_rate_rises_and_falls():
    rates = [rate(s, 10, 1.0, 2, 0.1) for s in range(10)]
    assert rates[0] < rates[1] < rates[2] == 1.0
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert abs(rates[-1] - 0.1) < 1e-9
    assert rate(0, 1, 1.0, 0, 0.1) == 1.0
