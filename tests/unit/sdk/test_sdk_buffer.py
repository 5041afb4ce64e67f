"""The queue and its counts."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from headrace.buffer import MAX_BATCH_BYTES, Buffer
from headrace.items import Item


def item(name="fb", size=10):
    return Item(name, b"x" * size)


def test_a_batch_is_due_when_it_is_full_or_old():
    buffer = Buffer(100, 3)
    assert buffer.due_in(0.0, 1.0) is None
    buffer.put(item(), 5.0)
    assert buffer.due_in(5.4, 1.0) == 0.5999999999999996
    buffer.put(item(), 5.5)
    buffer.put(item(), 5.5)
    assert buffer.due_in(5.5, 1.0) == 0.0


def test_a_batch_stays_below_what_the_gateway_takes():
    buffer = Buffer(100, 50)
    for _ in range(10):
        buffer.put(item(size=200_000), 0.0)
    assert sum(len(i.body) for i in buffer.take()) <= MAX_BATCH_BYTES


def test_a_batch_that_was_not_settled_comes_again_first():
    buffer = Buffer(100, 2)
    for name in "abc":
        buffer.put(item(name), 0.0)
    assert [i.id for i in buffer.take()] == ["a", "b"]
    assert [i.id for i in buffer.take()] == ["a", "b"]
    buffer.settle(2, 0, 0.0)
    assert [i.id for i in buffer.take()] == ["c"]


def test_what_finds_no_room_is_counted_and_said_once_a_minute(caplog):
    caplog.set_level(logging.WARNING, "headrace")
    buffer = Buffer(1, 50)
    buffer.put(item(), 0.0)
    for second in range(50):
        assert not buffer.put(item(), float(second))
    assert buffer.stats().dropped == 50
    assert len(caplog.records) == 1
    buffer.put(item(), 61.0)
    assert [r.getMessage() for r in caplog.records] == [
        "pieces of feedback lost: 1; the last because the queue of 1 is full",
        "pieces of feedback lost: 50; the last because the queue of 1 is full",
    ]


@given(st.lists(st.sampled_from(["put", "take", "settle", "refuse"]), max_size=60), st.integers(1, 10))
def test_every_piece_ends_in_exactly_one_count(steps, size):
    buffer, put, batch = Buffer(size, 4), 0, []
    for step in steps:
        if step == "put":
            buffer.put(item(), 0.0)
            put += 1
        elif step == "take":
            batch = buffer.take()
        elif batch:
            refused = 1 if step == "refuse" else 0
            buffer.settle(len(batch) - refused, refused, 0.0, "no")
            batch = []
        stats = buffer.stats()
        assert stats.delivered + stats.refused + stats.dropped + stats.pending == put
    buffer.give_up(0.0, "the end")
    assert len(buffer) == 0
