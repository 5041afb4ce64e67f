from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from headrace_evaluation.core.planning import plan, still_holds
from headrace_evaluation.core.suite import Suite
from headrace_evaluation.settings import EvaluationSettings
from headrace_evaluation.vault import SealBrokenError, Vault
from headrace_schemas import AdapterObserved, PolicySpec, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_schemas.events import AdapterState, EngineFacts

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CASES = [{"id": "1", "prompt": "Where is my lamp?", "rule": {"max_words": 14}}]


def suite(**changes) -> Suite:
    return Suite.model_validate({"cases": CASES} | changes)


# ---- suites
def test_a_prompt_is_short_for_one_user_message_and_messages_go_as_they_are():
    assert suite().cases[0].asked() == [{"role": "user", "content": "Where is my lamp?"}]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    assert suite(cases=[{"id": "1", "messages": messages, "rule": {"one_line": True}}]).cases[0].asked() == messages


def test_the_digest_tells_any_change():
    digests = {suite().digest(), suite(max_tokens=65).digest(), suite(cases=[CASES[0] | {"weight": 2.0}]).digest()}
    assert len(digests) == 3 and suite().digest() in digests


@pytest.mark.parametrize(
    "case",
    [
        {"id": "1", "rule": {"max_words": 1}},
        {"id": "1", "prompt": "a", "messages": [{"role": "user"}], "rule": {"max_words": 1}},
        {"id": "1", "prompt": "a", "rule": {}},
        {"id": "1", "prompt": "a"},
        {"id": "1", "prompt": "a", "rule": {"max_wrds": 1}},
        {"id": "1", "prompt": "a", "rule": {"max_words": 1}, "weight": 0},
        {"id": "1", "prompt": "a", "rule": {"max_words": 1}, "weight": float("nan")},
        {"id": "", "prompt": "a", "rule": {"max_words": 1}},
    ],
)
def test_a_case_that_asks_or_checks_nothing_is_refused(case):
    with pytest.raises(ValidationError):
        suite(cases=[case])


def test_two_cases_of_one_id_and_an_empty_suite_are_refused():
    with pytest.raises(ValidationError, match="same id"):
        suite(cases=CASES * 2)
    with pytest.raises(ValidationError):
        suite(cases=[])


def test_a_refusal_does_not_repeat_what_it_refuses():
    with pytest.raises(ValidationError) as caught:
        suite(cases=[{"id": "1", "prompt": "the secret question", "rule": {}}])
    assert "secret" not in str(caught.value)


# ---- the vault
def test_what_is_sealed_can_be_opened_and_holds_nothing_in_plain():
    vault = Vault(b"k" * 32)
    sealed = vault.seal("s", suite())
    assert b"lamp" not in sealed and vault.seal("s", suite()) != sealed
    assert vault.open("s", suite().digest(), sealed) == suite()


def test_another_key_another_name_or_a_changed_byte_does_not_open():
    vault, digest = Vault(b"k" * 32), suite().digest()
    sealed = vault.seal("s", suite())
    broken = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for opener, name, text in ((Vault(b"x" * 32), "s", sealed), (vault, "t", sealed), (vault, "s", broken)):
        with pytest.raises(SealBrokenError):
            opener.open(name, digest, text)


def test_a_key_that_is_too_short_is_refused_with_the_way_to_make_one():
    with pytest.raises(ValidationError, match="32 bytes"):
        EvaluationSettings(key="c2hvcnQ=", api_key="hr_x")


# ---- plans
def spec(**gate) -> PolicySpec:
    return PolicySpec.model_validate(
        {
            "policy": "support",
            "base_model": "tiny",
            "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
            "gate": {"suite": "private", **gate},
        }
    )


def ref(version: int) -> VersionRef:
    return VersionRef(version=version, digest=f"{version:064x}" if version else "", engine_model=f"m{version}")


def route(*load: int, champion: int = 0) -> RouteChanged:
    return RouteChanged(
        occurred_at=NOW,
        policy="support",
        base_model="tiny",
        epoch=1,
        champion=ref(champion),
        load=tuple(ref(v) for v in load),
    )


def replica(*ready: int, at=NOW, healthy=True) -> AdapterObserved:
    return AdapterObserved(
        occurred_at=at,
        replica="r1",
        sequence=1,
        url="http://127.0.0.1:1",
        healthy=healthy,
        base_model="tiny",
        engine=EngineFacts(base_model="tiny"),
        adapters=tuple(
            AdapterState(policy="support", version=v, digest=ref(v).digest, engine_model=f"m{v}", state="ready")
            for v in ready
        ),
    )


def planned(given_route, **changes):
    known = {
        "registered": [ref(1).digest, ref(2).digest],
        "replicas": [replica(1)],
        "suites": {"private": "5" * 64},
        "now": NOW,
    }
    return plan(spec(), given_route, **known | changes)


def test_a_candidate_that_is_registered_ready_and_has_a_suite_is_due():
    due, waiting = planned(route(1))
    assert [(c.candidate.version, c.champion.version) for c in due] == [(1, 0)] and waiting == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registered": []}, "registration"),
        ({"suites": {}}, "evals push private"),
        ({"replicas": []}, "no live replica"),
        ({"replicas": [replica()]}, "no live replica"),
        ({"replicas": [replica(1, healthy=False)]}, "no live replica"),
        ({"replicas": [replica(1, at=NOW - timedelta(seconds=61))]}, "no live replica"),
    ],
)
def test_a_candidate_that_cannot_be_judged_says_what_it_waits_for(changes, words):
    due, [waiting] = planned(route(1), **changes)
    assert due == [] and words in waiting.because


def test_what_engines_need_not_hold_is_not_judged():
    assert planned(route(champion=1)) == ([], [])


def test_the_same_comparison_has_the_same_id_and_another_champion_gate_or_suite_another_one():
    [first] = planned(route(1))[0]
    assert planned(route(1))[0][0].evaluation_id == first.evaluation_id
    others = {
        planned(route(1, champion=2))[0][0].evaluation_id,
        planned(route(1), suites={"private": "6" * 64})[0][0].evaluation_id,
        plan(
            spec(target={"alpha": 0.01}),
            route(1),
            registered=[ref(1).digest],
            replicas=[replica(1)],
            suites={"private": "5" * 64},
            now=NOW,
        )[0][0].evaluation_id,
    }
    assert len(others | {first.evaluation_id}) == 4


def test_a_report_is_not_made_about_what_is_no_longer_so():
    [first] = planned(route(1))[0]
    assert still_holds(first, spec(), route(1), "5" * 64)
    assert not still_holds(first, spec(), route(1, champion=2), "5" * 64)
    assert not still_holds(first, spec(), route(), "5" * 64)
    assert not still_holds(first, spec(), route(1), "6" * 64)
    assert not still_holds(first, spec(target={"alpha": 0.01}), route(1), "5" * 64)
