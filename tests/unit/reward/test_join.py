"""The join gives the same trajectories for the same facts, whatever their order and however often each comes."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_reward.core.join import Book, Spec
from headrace_reward.core.opinions import Opinion
from headrace_schemas import FeedbackRecorded, InferenceCompleted
from headrace_schemas.policy import RewardSpec
from headrace_schemas.traffic import EngineFacts, Source, Usage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPISODES = ("ep-a", "ep-b")
INFERENCES = tuple(
    InferenceCompleted(
        inference_id=f"i{n}",
        episode_id=EPISODES[n % 2],
        correlation_id="order-1" if n in (0, 3) else None,
        occurred_at=NOW + timedelta(seconds=n),
        policy="support" if n < 5 else "unheard-of",
        policy_version=1,
        completion="a b c" if n % 2 else "a b c d e f",
        engine=EngineFacts(base_model="base"),
        state="client_aborted" if n == 4 else "completed",
        usage=Usage(prompt_tokens=1, completion_tokens=5 + n),
        latency_s=0.1,
    )
    for n in range(6)
)
SPEC = Spec(
    1,
    RewardSpec.model_validate(
        {
            "parts": [
                {
                    "name": "user",
                    "kind": "feedback",
                    "weight": 1.0,
                    "metrics": {"accepted": 1.0, "regenerated": -0.5, "comparison": 0.5},
                },
                {"name": "short", "kind": "rule", "weight": 0.3, "rule": {"max_words": 4}},
            ]
        }
    ),
    "d" * 64,
)

targets = st.one_of(
    st.sampled_from([("inference_id", i.inference_id) for i in INFERENCES]),
    st.sampled_from([("episode_id", e) for e in EPISODES]),
    st.just(("correlation_id", "order-1")),
)
pairs = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] != p[1])
contents = st.one_of(
    st.tuples(st.sampled_from(["accepted", "regenerated", "shown"]), st.sampled_from([True, False, 0.25, None])),
    st.tuples(st.just("comment"), st.sampled_from(["shorter", "name the item", None])),
    st.tuples(st.just("demonstration"), st.sampled_from(["It left.", {"content": "Soon."}, None])),
    st.tuples(st.just("comparison"), pairs.map(lambda p: {"chosen": f"i{p[0]}", "rejected": f"i{p[1]}"}) | st.none()),
)
said = st.tuples(targets, contents, st.sampled_from(["u1", "u2", None]), st.none() | st.just("why not"))


def feedback(statements) -> list[FeedbackRecorded]:
    """As the feedback service would number them: revisions of one opinion and one sequence over all."""
    revisions: dict[tuple, int] = {}
    events = []
    for sequence, ((kind, target), (metric, value), by, comment) in enumerate(statements, 1):
        opinion = (kind, target, metric, by)
        revisions[opinion] = revisions.get(opinion, 0) + 1
        events.append(
            FeedbackRecorded(
                occurred_at=NOW,
                recorded_at=NOW + timedelta(seconds=sequence),
                feedback_id=f"fb{sequence}",
                revision=revisions[opinion],
                sequence=sequence,
                metric_name=metric,
                value=value,
                comment=comment,
                source=Source(id=by),
                **{kind: target},
            )
        )
    return events


def run(facts, cuts=frozenset()) -> tuple[Book, list]:
    """Enter the facts one after the other, settling after those in `cuts` and at the end."""
    book, published = Book(), []
    for n, fact in enumerate(facts):
        if isinstance(fact, InferenceCompleted):
            book.add_inference(fact)
        elif isinstance(fact, FeedbackRecorded):
            book.add_opinion(Opinion.of(fact))
        else:
            book.add_spec(("default", "support"), fact)
        if n in cuts:
            published += book.settle().events
    return book, published + book.settle().events


def final(events) -> dict:
    """What a trainer holds at the end. A trajectory that says nothing any more is as good as none."""
    newest = {e.trajectory_id: e for e in events}
    return {key: e.model_dump(exclude={"revision"}) for key, e in newest.items() if e.feedback_ids}


@settings(max_examples=100, deadline=None)
@given(st.lists(said, max_size=12), st.data())
def test_any_order_and_repetition_gives_the_same_trajectories(statements, data):
    facts = [SPEC, *INFERENCES, *feedback(statements)]
    repeated = facts + data.draw(st.lists(st.sampled_from(facts), max_size=10), "repeated")
    shuffled = data.draw(st.permutations(repeated), "order")
    cuts = data.draw(st.frozensets(st.integers(0, len(shuffled))), "cuts")
    straight, expected = run(facts)
    book, events = run(shuffled, cuts)
    assert final(events) == final(expected)
    assert {k: o.order for k, o in book.opinions.items()} == {k: o.order for k, o in straight.opinions.items()}
    assert {k: o.matched for k, o in book.opinions.items()} == {k: o.matched for k, o in straight.opinions.items()}
    assert book.waiting == straight.waiting


@settings(max_examples=50, deadline=None)
@given(st.lists(said, max_size=12), st.data())
def test_revisions_grow_by_one_and_each_says_something_new(statements, data):
    facts = [SPEC, *INFERENCES, *feedback(statements)]
    shuffled = data.draw(st.permutations(facts * 2), "order")
    _, events = run(shuffled, frozenset(range(len(shuffled))))
    held: dict = {}
    for event in events:
        before = held.get(event.trajectory_id)
        assert event.revision == (before.revision + 1 if before else 1)
        if before:
            same = {"revision", "occurred_at"}
            assert event.model_dump(exclude=same) != before.model_dump(exclude=same)
        held[event.trajectory_id] = event


@settings(max_examples=100, deadline=None)
@given(st.lists(said, min_size=1, max_size=12), st.data())
def test_a_slice_settles_as_the_whole_does(statements, data):
    """The service hands a batch only what concerns it: the outcome must be that of the whole state."""
    events = feedback(statements)
    split = data.draw(st.integers(0, len(events) - 1))
    facts = [SPEC, *INFERENCES, *events[:split]]
    whole, _ = run(facts)
    last = Opinion.of(events[split])
    held = whole.opinions.get(last.key)
    names = {("default", last.key.target)} | {
        ("default", f"inference:{i}") for o in (last, held) if o for i in o.compared or ()
    }
    known = [
        i
        for i in INFERENCES
        if any(key in whole._named.get(n, ()) for n in names for key in [("default", i.inference_id)])
    ]
    concerned = {o.key: o for i in known for o in whole._opinions_about(i)} | ({held.key: held} if held else {})
    part = Book(
        inferences=known,
        opinions=concerned.values(),
        trajectories={k: v for k, v in whole.trajectories.items() if k.inference_id in {i.inference_id for i in known}},
        specs=whole.specs,
        waiting=whole.waiting,
    )
    part.add_opinion(last)
    whole.add_opinion(last)
    assert part.settle().events == whole.settle().events


def test_an_inference_of_a_policy_nobody_knows_waits_and_is_scored_when_it_comes():
    book, events = run([INFERENCES[0], *feedback([(("inference_id", "i0"), ("accepted", True), "u1", None)])])
    assert not events and book.waiting
    book.add_spec(("default", "support"), SPEC, "policy.1")
    changes = book.settle()
    assert [e.trajectory_id for e in changes.events] == ["i0"] and not book.waiting
    assert list(changes.causes.values()) == ["policy.1"]


def test_an_older_policy_file_changes_nothing():
    book, _ = run([SPEC])
    book.add_spec(("default", "support"), Spec(0, SPEC.reward, "e" * 64))
    assert book.specs["default", "support"] is SPEC
