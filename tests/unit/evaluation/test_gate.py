import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_evaluation.core.eprocess import e_value
from headrace_evaluation.core.verdict import Answered, Pair, decide
from headrace_schemas.policy import GateSpec

GATE = GateSpec(suite="private")


def answered(score: float, tokens: int = 20, latency_s: float = 1.0) -> Answered:
    return Answered(score, score >= 1.0, tokens, latency_s)


def pairs(scores, champion=0.0, *, tokens=(20, 20), latency=(1.0, 1.0), weight=1.0) -> list[Pair]:
    champions = champion if isinstance(champion, list) else [champion] * len(scores)
    return [
        Pair(answered(c, tokens[0], latency[0]), answered(i, tokens[1], latency[1]), weight)
        for c, i in zip(scores, champions, strict=True)
    ]


def verdict(found, gate=GATE, expected=None, trouble=""):
    return decide(gate, found, expected=len(found) if expected is None else expected, trouble=trouble)


def graded(rng: random.Random, mean: float) -> float:
    """The mean of four checks, each met with this probability: what a rule's score looks like."""
    return sum(rng.random() < mean for _ in range(4)) / 4


# ---- the e-process
def test_no_evidence_is_one_and_equal_answers_stay_there():
    assert e_value([]) == 1.0
    assert e_value([0.0] * 100) == pytest.approx(1.0)


@given(st.lists(st.floats(-1, 1), max_size=60))
def test_evidence_is_finite_positive_and_does_not_depend_on_the_order(differences):
    value = e_value(differences)
    assert 0 < value < math.inf
    assert e_value(sorted(differences)) == pytest.approx(value, rel=1e-6)


def test_evidence_never_overflows():
    assert math.isfinite(e_value([1.0] * 10_000))


@pytest.mark.parametrize("bad", [1.01, -1.01, math.nan, math.inf])
def test_what_is_no_difference_is_refused(bad):
    with pytest.raises(ValueError, match="outside"):
        e_value([0.0, bad])


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: graded(r, 0.5) - graded(r, 0.5),
        lambda r: float(r.random() < 0.3) - float(r.random() < 0.3),
        lambda r: 1.0 if r.random() < 0.05 else -1 / 19,  # rare wins that are paid for by many small losses
        lambda r: -1.0 if r.random() < 0.05 else 1 / 19,
    ],
)
def test_identical_candidates_are_promoted_in_at_most_alpha_even_when_looked_at_after_every_case(draw):
    runs, alpha = 400, 0.05
    promoted = 0
    for seed in range(runs):
        rng = random.Random(seed)
        differences = [draw(rng) for _ in range(120)]
        promoted += any(e_value(differences[:n]) >= 1 / alpha for n in range(1, 121, 3))
    assert promoted / runs <= alpha


def test_identical_candidates_pass_the_whole_gate_in_at_most_alpha_of_400_runs():
    promoted = 0
    for seed in range(400):
        rng = random.Random(seed)
        found = pairs([graded(rng, 0.5) for _ in range(64)], [graded(rng, 0.5) for _ in range(64)])
        promoted += verdict(found).verdict == "promote"
    assert promoted <= 0.05 * 400


def test_a_gain_of_015_with_deviation_03_is_found_in_half_of_the_suites_of_40_and_most_of_80():
    def power(cases: int) -> float:
        found = 0
        for seed in range(300):
            rng = random.Random(seed)
            found += e_value([max(-1.0, min(1.0, rng.gauss(0.15, 0.3))) for _ in range(cases)]) >= 20
        return found / 300

    assert power(40) >= 0.5
    assert power(80) >= 0.9


def test_a_truly_worse_candidate_is_never_promoted_and_mostly_rejected():
    verdicts = []
    for seed in range(200):
        rng = random.Random(seed)
        found = pairs([graded(rng, 0.35) for _ in range(40)], [graded(rng, 0.6) for _ in range(40)])
        verdicts.append(verdict(found).verdict)
    assert verdicts.count("promote") == 0
    assert verdicts.count("reject") >= 180


# ---- verdicts
def test_a_clear_gain_is_promoted_with_its_numbers():
    found = verdict(pairs([1.0] * 30 + [0.0] * 10))
    assert found.verdict == "promote"
    assert found.statistics.candidate == 0.75 and found.statistics.champion == 0.0
    assert found.statistics.candidate_passed == 30 and found.statistics.cases == 40
    assert found.statistics.e_value >= 20 and "better" in found.because


def test_a_clear_loss_is_rejected():
    assert verdict(pairs([0.0] * 40, 0.8)).verdict == "reject"


def test_a_small_gain_is_held():
    found = verdict(pairs([0.5] * 38 + [1.0] * 2, 0.5))
    assert found.verdict == "hold" and "not proved better" in found.because


def test_a_suite_that_can_prove_nothing_says_so():
    few = verdict(pairs([1.0] * 3))
    assert few.verdict == "hold" and "cannot prove" in few.because
    full = verdict(pairs([1.0] * 40, 1.0))
    assert full.verdict == "hold" and "cannot prove" in full.because


def test_missing_answers_hold_with_the_reason():
    found = verdict(pairs([1.0] * 39), expected=40, trouble="the gateway answered 503")
    assert (
        found.verdict == "hold" and found.because == "1 of 40 cases have no pair of answers: the gateway answered 503"
    )
    assert verdict([], expected=40).verdict == "hold"
    assert verdict([], expected=0).verdict == "hold"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_rejects(bad):
    found = verdict([*pairs([1.0] * 39), *pairs([bad])])
    assert found.verdict == "reject" and "finite" in found.because


def test_guards_hold_when_missed_and_reject_when_missed_by_far():
    gate = GateSpec.model_validate({"suite": "s", "guards": [{"metric": "tokens_per_answer", "max_ratio": 1.25}]})
    assert verdict(pairs([1.0] * 40, tokens=(25, 20)), gate).verdict == "promote"
    missed = verdict(pairs([1.0] * 40, tokens=(26, 20)), gate)
    assert missed.verdict == "hold" and "tokens_per_answer 26 against 20" in missed.because
    assert verdict(pairs([1.0] * 40, tokens=(40, 20)), gate).verdict == "reject"
    assert verdict(pairs([1.0] * 40, tokens=(40, 0)), gate).verdict == "hold"


def test_the_latency_guard_goes_by_the_median():
    gate = GateSpec.model_validate({"suite": "s", "guards": [{"metric": "latency_s", "max_ratio": 1.1}]})
    slow = [p._replace(candidate=p.candidate._replace(latency_s=60.0)) for p in pairs([1.0])]
    assert verdict([*pairs([1.0] * 39), *slow], gate).verdict == "promote"
    assert verdict(pairs([1.0] * 40, latency=(1.2, 1.0)), gate).verdict == "hold"


def test_heavier_cases_count_more_and_bets_stay_within_bounds():
    heavy = [*pairs([1.0] * 10, weight=100.0), *pairs([0.0] * 10, 1.0)]
    found = verdict(heavy)
    assert found.statistics.candidate == pytest.approx(1000 / 1010)
    assert found.verdict == "promote"


def test_evidence_of_light_cases_is_not_scaled_up_before_the_heavy_ones_are_asked():
    """Else two looks would bet on different scales, and a false promotion could be likelier than alpha."""
    light = verdict(pairs([1.0] * 10, weight=0.1)).statistics.e_value
    assert light == pytest.approx(e_value([0.1] * 10))
    assert light < verdict(pairs([1.0] * 10)).statistics.e_value
