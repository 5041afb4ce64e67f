from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_registry.core.deadline import overdue
from headrace_registry.core.lifecycle import MOVES, State, allowed
from headrace_registry.core.policy import first, revised
from headrace_registry.core.promotion import Pending, Step, judge, not_ready
from headrace_registry.core.route import Route, way_back
from headrace_registry.core.version import Version, refusal
from headrace_schemas import AdapterObserved, CheckpointSaved, EvaluationCompleted, PolicySpec
from headrace_schemas.events import AdapterState, EngineFacts, GateStatistics

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A, B, S = "a" * 64, "b" * 64, "c" * 64


def spec(**gate) -> PolicySpec:
    return PolicySpec.model_validate(
        {
            "policy": "support",
            "base_model": "tiny",
            "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
            "gate": {"suite": "private", **gate},
        }
    )


def report(verdict="promote", **changes) -> EvaluationCompleted:
    fields = {
        "occurred_at": NOW,
        "evaluation_id": "e1",
        "policy": "support",
        "candidate_version": 1,
        "candidate_digest": A,
        "champion_version": 0,
        "champion_digest": "",
        "suite": "private",
        "suite_digest": S,
        "gate_digest": spec().gate_digest(),
        "verdict": verdict,
        "because": "words",
        "statistics": GateStatistics(cases=40, candidate=0.8, champion=0.1, e_value=50, e_harm=0.1, alpha=0.05),
        "duration_s": 1.0,
    }
    return EvaluationCompleted(**fields | changes)


def judged(event, **changes):
    context = {"state": State.REGISTERED, "forced": False, "spec": spec(), "champion_version": 0, "champion_digest": ""}
    return judge(event, **context | changes).step


def version(**changes) -> Version:
    fields = {
        "policy": "support",
        "version": 1,
        "digest": A,
        "object_key": "k",
        "size_bytes": 1,
        "engine_model": "support@v1-aaa",
        "base_model": "tiny",
        "state": State.REGISTERED,
        "state_at": NOW,
        "reason": "",
        "verdict": None,
        "lineage": None,
        "policy_digest": S,
        "policy_revision": 1,
        "registered_at": NOW,
    }
    return Version(**fields | changes)


def replica(name="r1", *, ready=("support@v1-aaa",), at=NOW, healthy=True, base="tiny") -> AdapterObserved:
    return AdapterObserved(
        occurred_at=at,
        replica=name,
        sequence=1,
        url="http://127.0.0.1:1",
        healthy=healthy,
        base_model=base,
        engine=EngineFacts(base_model=base),
        adapters=tuple(
            AdapterState(policy="support", version=1, digest=A, engine_model=m, state="ready") for m in ready
        ),
    )


# ---- lifecycle
def test_nothing_comes_back_from_rejected_or_quarantined_by_itself():
    assert not MOVES[State.REJECTED] and not MOVES[State.QUARANTINED]
    assert allowed(State.QUARANTINED, State.CHAMPION, forced=True)
    assert not allowed(State.QUARANTINED, State.CHAMPION)


def test_no_version_becomes_champion_without_a_report_unless_a_person_forces_it():
    assert not allowed(State.REGISTERED, State.CHAMPION)
    assert allowed(State.EVALUATED, State.CHAMPION)
    assert allowed(State.REGISTERED, State.CHAMPION, forced=True)


def test_a_champion_is_left_for_retirement_or_quarantine_only():
    assert MOVES[State.CHAMPION] == {State.RETIRED, State.QUARANTINED}


# ---- what a report is worth
def test_a_report_that_says_promote_promotes_and_waits_for_a_person_where_the_policy_says_so():
    assert judged(report()) is Step.PROMOTE
    manual = spec(promote="manual")
    assert judged(report(gate_digest=manual.gate_digest()), spec=manual) is Step.WAIT


def test_hold_and_reject_are_what_they_say():
    assert judged(report("hold")) is Step.HOLD
    assert judged(report("reject")) is Step.REJECT


@pytest.mark.parametrize(
    "changes",
    [
        {"champion_version": 2, "champion_digest": B},
        {"champion_digest": B},
        {"spec": spec(target={"alpha": 0.01})},
        {"spec": spec(suite="other")},
        {"state": State.QUARANTINED},
        {"state": State.REJECTED},
        {"forced": True},
    ],
)
@pytest.mark.parametrize("verdict", ["promote", "hold", "reject"])
def test_a_report_about_something_that_is_no_longer_so_changes_nothing(changes, verdict):
    assert judged(report(verdict), **changes) is Step.KEEP


# ---- engines
def test_every_live_replica_must_be_ready_and_there_must_be_one():
    model = "support@v1-aaa"
    assert not_ready([replica()], model, "tiny", NOW) is None
    assert "r2" in not_ready([replica(), replica("r2", ready=())], model, "tiny", NOW)
    assert "no live replica" in not_ready([], model, "tiny", NOW)


def test_replicas_that_are_silent_ill_or_of_another_base_model_do_not_count():
    model, old = "support@v1-aaa", NOW - timedelta(seconds=61)
    others = [
        replica("r2", ready=(), at=old),
        replica("r3", ready=(), healthy=False),
        replica("r4", ready=(), base="x"),
    ]
    assert not_ready([replica(), *others], model, "tiny", NOW) is None
    assert not_ready([replica(at=old)], model, "tiny", NOW) is not None


# ---- routes
def test_promotion_keeps_the_old_champion_as_the_way_back():
    route = Route(1, 0).with_candidate(1).with_candidate(2).promoted(1)
    assert route == Route(4, 1, 0, (2,))
    assert route.promoted(2) == Route(5, 2, 1, ())


@given(st.lists(st.tuples(st.sampled_from(["with", "without", "promote", "back"]), st.integers(0, 5)), max_size=20))
def test_the_epoch_grows_by_one_with_each_change_and_no_version_has_two_roles(steps):
    route = Route(1, 0)
    for what, number in steps:
        if number == route.champion:
            continue
        before = route
        if what == "with":
            route = route.with_candidate(number)
        elif what == "without":
            route = route.without_candidate(number)
        elif what == "promote":
            route = route.promoted(number)
        elif route.previous is not None:
            route = route.rolled_back(route.previous, None)
        assert route == before or route.epoch == before.epoch + 1
        assert route.champion not in route.load and route.previous not in route.load
        assert route.champion != route.previous


def test_the_way_back_is_the_newest_champion_from_before():
    assert way_back([(0, 1), (1, 2), (3, 9)], until=5, leaving={4}) == 1
    assert way_back([(0, 1), (1, 2)], until=5, leaving={1}) == 0
    assert way_back([], until=5, leaving=()) is None


# ---- checkpoints
def checkpoint(**changes) -> CheckpointSaved:
    fields = {
        "occurred_at": NOW,
        "policy": "support",
        "base_model": "tiny",
        "run_id": "run-1",
        "parent_version": 0,
        "digest": A,
        "object_key": "k",
        "size_bytes": 1,
        "manifest_digest": A,
        "manifest_key": "m",
        "samples": 32,
        "recipe": "default",
        "recipe_digest": A,
        "spec_digest": A,
        "fencing_token": 5,
    }
    return CheckpointSaved(**fields | changes)


def test_a_stale_fence_a_foreign_base_and_an_unknown_parent_are_refused_in_words():
    base = version(version=0, digest="")
    ask = {"highest_token": 5, "base_model": "tiny", "parent": base}
    assert refusal(checkpoint(), **ask) is None
    assert "fencing token" in refusal(checkpoint(fencing_token=4), **ask)
    assert "base model" in refusal(checkpoint(base_model="other"), **ask)
    assert "parent" in refusal(checkpoint(), **ask | {"parent": None})
    assert "digest" in refusal(checkpoint(parent_digest=B), **ask)
    left = version(digest="", state=State.QUARANTINED, reason="rolled back to v0: it lies")
    assert "it lies" in refusal(checkpoint(), **ask | {"parent": left})


# ---- deadlines
def test_a_candidate_that_nobody_judges_is_given_up_and_one_that_waits_for_a_person_is_not():
    late, limit = NOW + timedelta(minutes=16), timedelta(minutes=15)
    ask = {"manual": False, "champion_since": None, "deadline": limit, "now": late}
    assert "no gate report" in overdue(version(), **ask)
    assert overdue(version(), **ask | {"now": NOW + timedelta(minutes=14)}) is None
    assert overdue(version(), **ask | {"champion_since": NOW + timedelta(minutes=10)}) is None
    waits = version(state=State.EVALUATED, verdict="promote")
    assert overdue(waits, **ask | {"manual": True}) is None
    assert overdue(waits, **ask) is not None
    pending = Pending("promote", "gate", "", forced=False, at=NOW)
    assert "not ready" in overdue(version(state=State.EVALUATED, verdict="promote", pending=pending), **ask)


# ---- policies
def test_the_same_file_changes_nothing_and_the_base_model_is_fixed_once_versions_exist():
    policy = first(spec(), NOW)
    assert revised(policy, spec(), NOW) is None
    other = PolicySpec.model_validate(spec().canonical() | {"base_model": "larger"})
    assert revised(policy, other, NOW).base_model == "larger"
    with pytest.raises(ValueError, match="base model"):
        revised(policy._replace(last_version=1), other, NOW)
    assert revised(policy._replace(last_version=1), spec(promote="manual"), NOW).revision == 2
