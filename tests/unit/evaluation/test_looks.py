"""A suite is asked in looks, and no further than the evidence needs."""

from hypothesis import given
from hypothesis import strategies as st

from headrace_evaluation.core.looks import LOOK_EVERY, looks
from headrace_evaluation.core.verdict import Answered, Pair, settled
from headrace_schemas.policy import GateSpec, Guard

GATE = GateSpec(suite="s", guards=(Guard(metric="tokens_per_answer", max_ratio=1.2),))


def pair(candidate: float, champion: float, tokens: int = 10) -> Pair:
    return Pair(Answered(candidate, candidate == 1, tokens, 0.1), Answered(champion, champion == 1, 10, 0.1), 1.0)


@given(st.integers(1, 300), st.text(max_size=64))
def test_every_case_is_in_one_look_whatever_the_order(cases, digest):
    cut = looks(cases, digest)
    assert sorted(n for look in cut for n in look) == list(range(cases))
    assert all(len(look) == LOOK_EVERY for look in cut[:-1])
    assert cut == looks(cases, digest)


def test_a_clear_gain_settles_and_a_small_or_guarded_one_does_not():
    assert settled(GATE, [pair(1.0, 0.5)] * 16)
    assert not settled(GATE, [pair(0.55, 0.5)] * 16)
    assert not settled(GATE, [pair(1.0, 0.5, tokens=13)] * 16)
    assert not settled(GATE, [])


def test_harm_settles():
    assert settled(GATE, [pair(0.2, 0.8)] * 16)
