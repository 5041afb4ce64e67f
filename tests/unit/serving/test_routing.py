from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_schemas import AdapterObserved, KeyChanged, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_schemas.keys import hash_secret
from headrace_schemas.release import AdapterState
from headrace_schemas.traffic import EngineFacts
from headrace_serving.core.desired import to_unload, wanted
from headrace_serving.core.keys import check_key, need_scope
from headrace_serving.core.naming import ModelName, parse_model
from headrace_serving.core.pins import Pins
from headrace_serving.core.refusal import Refusal
from headrace_serving.core.replicas import candidates
from headrace_serving.core.routing import decide, model_names

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "base-model"
SECRET = "s" * 30


def ref(version, digest="a"):
    if version == 0:
        return VersionRef(version=0, engine_model=BASE)
    return VersionRef(
        version=version, digest=digest * 64, object_key="k", engine_model=f"support@v{version}-{digest * 12}"
    )


def route(champion=0, **more):
    return RouteChanged(occurred_at=NOW, policy="support", base_model=BASE, epoch=1, champion=ref(champion), **more)


def key(*scopes, project="default", revoked=False):
    return KeyChanged(
        occurred_at=NOW,
        project=project,
        prefix="abcdefgh",
        salt="00",
        hash=hash_secret("00", SECRET),
        scopes=scopes or ("inference",),
        revoked=revoked,
    )


def ask(text, *routes, given=None, **more):
    return decide(parse_model(text), routes, given or key(), sticky="s", **more)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("support", ModelName("support")),
        ("support@v7", ModelName("support", 7)),
        ("support@champion", ModelName("support", None, "champion")),
        ("a.b-c_d@v0", ModelName("a.b-c_d", 0)),
    ],
)
def test_model_names_are_a_policy_with_or_without_a_pin(text, name):
    assert parse_model(text) == name


@pytest.mark.parametrize(
    "text", [None, "", 7, "Support", "support@", "support@7", "support@vv", "support@latest", "x" * 80]
)
def test_what_is_no_model_name_is_refused(text):
    with pytest.raises(Refusal):
        parse_model(text)


def test_the_champion_answers_and_the_fallbacks_are_the_previous_one_and_base():
    decision = ask("support", route(3, previous=ref(2)))
    assert (decision.choice.ref.version, decision.choice.variant) == (3, "champion")
    assert [c.ref.version for c in decision.fallbacks] == [2, 0]


def test_base_as_champion_needs_no_fallback():
    decision = ask("support", route(0))
    assert (decision.choice.ref.version, decision.choice.variant, decision.fallbacks) == (0, "base", ())


def test_an_episode_stays_with_its_version_as_long_as_it_may_be_served():
    r = route(3, previous=ref(2))
    assert ask("support", r, pinned=2).choice.ref.version == 2
    assert ask("support", r, pinned=1).choice.ref.version == 3
    assert ask("support", route(3, load=(ref(4),)), pinned=4).choice.ref.version == 3  # never a candidate


def test_a_pinned_version_has_no_fallback():
    assert ask("support@v2", route(3, previous=ref(2))).fallbacks == ()
    assert ask("support@base", route(3)).choice.ref.version == 0


def test_a_candidate_needs_the_scope_evaluate_and_is_then_an_evaluation():
    r = route(3, load=(ref(4),))
    with pytest.raises(Refusal) as refused:
        ask("support@v4", r)
    assert (refused.value.status, refused.value.code) == (403, "missing_scope")
    decision = ask("support@v4", r, given=key("evaluate"))
    assert (decision.choice.variant, decision.evaluation) == ("candidate", True)
    assert ask("support@v3", r, given=key("evaluate")).evaluation
    assert not ask("support", r, given=key("inference", "evaluate")).evaluation


def test_an_unknown_policy_or_version_is_a_404_that_names_what_there_is():
    for text, words in (("other", "there are support"), ("support@v9", "@v0, @v3")):
        with pytest.raises(Refusal, match=words) as refused:
            ask(text, route(3))
        assert (refused.value.status, refused.value.code, refused.value.param) == (404, "model_not_found", "model")


def test_another_projects_policy_does_not_exist():
    with pytest.raises(Refusal) as refused:
        ask("support", route(3), given=key(project="other"))
    assert refused.value.status == 404
    assert "support" not in refused.value.message.split("policy support")[1]


@given(st.floats(0.05, 0.95))
def test_the_canary_gets_its_share_and_each_actor_always_the_same(share):
    r = route(3, canary=ref(4), canary_share=share)
    choices = [decide(ModelName("support"), [r], key(), sticky=f"actor{n}").choice for n in range(400)]
    again = [decide(ModelName("support"), [r], key(), sticky=f"actor{n}").choice for n in range(400)]
    assert choices == again
    canaries = [c for c in choices if c.variant == "canary"]
    assert abs(len(canaries) / 400 - share) < 0.12
    assert all(c.ref.version == 4 and c.propensity == share for c in canaries)
    assert all(c.propensity == pytest.approx(1 - share) for c in choices if c.variant == "champion")


def test_the_names_listed_are_those_that_the_key_may_use():
    r = route(3, previous=ref(2), load=(ref(4),))
    assert [n for n, _ in model_names([r], key())] == ["support", "support@v0", "support@v2", "support@v3"]
    assert [n for n, _ in model_names([r], key("evaluate"))][-1] == "support@v4"
    assert model_names([r], key(project="other")) == []


@pytest.mark.parametrize("given", [None, "", "Basic x", "Bearer", "Bearer sk-1", f"Bearer hr_abcdefgh_{'x' * 30}"])
def test_a_wrong_key_is_a_401_whatever_is_wrong_with_it(given):
    with pytest.raises(Refusal) as refused:
        check_key(given, {"abcdefgh": key()}.get)
    assert refused.value.status == 401


def test_a_right_key_opens_and_a_revoked_one_does_not():
    header = f"Bearer hr_abcdefgh_{SECRET}"
    assert check_key(header, {"abcdefgh": key()}.get).scopes == ("inference",)
    assert check_key(header.replace("Bearer", "bearer"), {"abcdefgh": key()}.get)
    with pytest.raises(Refusal):
        check_key(header, {"abcdefgh": key(revoked=True)}.get)
    with pytest.raises(Refusal) as refused:
        need_scope(key("feedback"), "inference", "evaluate")
    assert refused.value.status == 403


def test_pins_forget_the_longest_unused():
    pins = Pins(2)
    pins.put("p", "one", 1)
    pins.put("p", "two", 2)
    assert pins.get("p", "one") == 1
    pins.put("p", "three", 3)
    assert (pins.get("p", "one"), pins.get("p", "two"), pins.get("p", "three")) == (1, None, 3)


def observed(name, *refs, healthy=True, base=BASE):
    return AdapterObserved(
        occurred_at=NOW,
        replica=name,
        sequence=1,
        url=f"http://{name}",
        healthy=healthy,
        base_model=base,
        engine=EngineFacts(base_model=base),
        adapters=tuple(
            AdapterState(policy="support", version=r.version, digest=r.digest, engine_model=r.engine_model, state=s)
            for r, s in refs
        ),
    )


def pick(version, replicas, **more):
    defaults = {"in_flight": {}, "resting": {}, "now": 0.0, "turn": 0, "static": ()}
    return [t.replica for t in candidates(ref(version), BASE, replicas, **{**defaults, **more})]


def test_only_replicas_that_proved_the_version_are_asked():
    replicas = [
        observed("a", (ref(1), "ready")),
        observed("b", (ref(1), "loading")),
        observed("c", (ref(2), "ready")),
        observed("d", (ref(1), "ready"), healthy=False),
        observed("e", (ref(1), "ready"), base="other"),
    ]
    assert pick(1, replicas) == ["a"]
    assert pick(0, replicas) == ["a", "b", "c"]


def test_the_least_busy_is_asked_first_then_in_turn_and_a_resting_one_last():
    replicas = [observed(n, (ref(1), "ready")) for n in "abc"]
    assert pick(1, replicas, in_flight={"a": 2, "b": 1}) == ["c", "b", "a"]
    assert [pick(1, replicas, turn=n)[0] for n in range(4)] == ["a", "b", "c", "a"]
    assert pick(1, replicas, resting={"a": 5.0}, now=1.0)[-1] == "a"
    assert pick(1, replicas, resting={"a": 5.0}, now=6.0)[0] == "a"


def test_engines_without_an_agent_serve_base_alone_and_only_where_no_agent_reports():
    static = (("other", "http://x"), ("", "http://any"), (BASE, "http://s"))
    assert pick(0, [], static=static) == ["http://any", "http://s"]
    assert pick(1, [], static=static) == []
    assert pick(0, [observed("a")], static=static) == ["a"]


def test_a_replica_wants_what_the_routes_of_its_base_say_champions_first():
    routes = [
        route(3, previous=ref(2, "b"), load=(ref(4, "c"),)),
        RouteChanged(
            occurred_at=NOW,
            policy="sales",
            base_model=BASE,
            epoch=1,
            champion=VersionRef(version=1, digest="d" * 64, engine_model="sales@v1-dddddddddddd"),
        ),
        RouteChanged(occurred_at=NOW, policy="x", base_model="other", epoch=1, champion=ref(1, "e")),
    ]
    assert [w.ref.version for w in wanted(routes, BASE).values()] == [1, 3, 2, 4]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 100)), st.sets(st.sampled_from("abcdef")), st.integers(0, 3)
)
def test_what_is_wanted_is_never_unloaded_and_the_rest_after_its_grace(since, desired, room):
    loaded = list("abcdef")
    gone = to_unload(loaded, dict.fromkeys(desired), since, now=100, grace_s=50, room_needed=room)
    assert not set(gone) & desired
    unwanted = [n for n in loaded if n not in desired]
    assert {n for n in unwanted if 100 - since.get(n, 100) >= 50} <= set(gone)
    assert len(gone) >= min(room, len(unwanted))
