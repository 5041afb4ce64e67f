from dataclasses import replace
from datetime import UTC, datetime, timedelta

from headrace_schemas import PolicySpec, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_training.core.trigger import Standing, decide

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KNOWN = frozenset({"default"})


def spec(**trigger):
    return PolicySpec.model_validate(
        {
            "policy": "support",
            "base_model": "tiny",
            "train": {"trigger": trigger},
            "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
            "gate": {"suite": "private"},
        }
    )


def route(**fields):
    base = VersionRef(version=0, engine_model="tiny")
    return RouteChanged(occurred_at=NOW, policy="support", base_model="tiny", epoch=1, champion=base, **fields)


STANDING = Standing(
    NOW, new_mass=32.0, new_samples=32, oldest=NOW - timedelta(minutes=5), active_run=None, checkpoint_at=None
)


def test_enough_new_events_start_a_run():
    decision = decide(spec(events=32), route(), STANDING, KNOWN)
    assert decision.start
    assert "32" in decision.because
    assert not decide(spec(events=33), route(), STANDING, KNOWN).start


def test_events_of_little_trust_count_for_little():
    assert not decide(spec(events=32), route(), replace(STANDING, new_mass=8.0), KNOWN).start


def test_waiting_for_long_starts_a_run_when_there_are_a_few():
    few = replace(STANDING, new_mass=16.0, new_samples=16)
    assert decide(spec(events=32, or_after="5m", min_events=16), route(), few, KNOWN).start
    assert not decide(spec(events=32, or_after="6m", min_events=16), route(), few, KNOWN).start
    assert not decide(spec(events=32, or_after="5m", min_events=17), route(), few, KNOWN).start


def test_one_run_and_one_candidate_at_a_time():
    assert not decide(spec(), route(), replace(STANDING, active_run="run-1"), KNOWN).start
    candidate = VersionRef(version=3, digest="0" * 64, engine_model="support@v3-000000000000")
    waiting = decide(spec(), route(load=(candidate,)), STANDING, KNOWN)
    assert not waiting.start
    assert "v3" in waiting.because and "person" not in waiting.because
    manual = spec().model_copy(update={"gate": spec().gate.model_copy(update={"promote": "manual"})})
    assert "person" in decide(manual, route(load=(candidate,)), STANDING, KNOWN).because
    assert not decide(spec(), route(canary=candidate, canary_share=0.1), STANDING, KNOWN).start


def test_a_checkpoint_that_is_not_registered_yet_is_waited_for_but_not_for_ever():
    saved = replace(STANDING, checkpoint_at=NOW - timedelta(seconds=5))
    assert not decide(spec(), route(), saved, KNOWN).start
    assert decide(spec(), route(), replace(saved, checkpoint_at=NOW - timedelta(hours=1)), KNOWN).start


def test_a_policy_without_a_route_or_with_an_unknown_recipe_waits_and_says_so():
    assert "route" in decide(spec(), None, STANDING, KNOWN).because
    decision = decide(spec(), route(), STANDING, frozenset({"other"}))
    assert not decision.start
    assert "other" in decision.because
