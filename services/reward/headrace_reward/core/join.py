"""The join: inferences, opinions and specs in any order and any repetition become the same trajectories.

A `Book` is the whole state in a property test, and the slice of it that a batch touches in the service: the rules are
the same code. What holds of an opinion is decided by the server's order, never by arrival; a trajectory's content is a
function of what is known; and a revision is made only where that content differs from the last one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace_reward.core.compose import Scored, compose, priced, tokens_of
from headrace_reward.core.opinions import InferenceKey, Opinion, OpinionKey, about, targets_of
from headrace_reward.core.price import Judged, Price, Window
from headrace_schemas import InferenceCompleted, TrajectoryScored
from headrace_schemas.policy import RewardSpec

PolicyKey = tuple[str, str]
"""Project and policy."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The reward spec of a policy's newest revision."""

    revision: int
    reward: RewardSpec
    digest: str


@dataclass(frozen=True, slots=True)
class Published:
    """The newest revision of a trajectory."""

    revision: int
    scored: Scored
    quality: float | None
    price: Price | None


@dataclass(slots=True)
class Changes:
    """What `settle` found: to be saved, and to be published, in this order."""

    inferences: dict[InferenceKey, InferenceCompleted] = field(default_factory=dict)
    opinions: dict[OpinionKey, Opinion] = field(default_factory=dict)
    specs: dict[PolicyKey, Spec] = field(default_factory=dict)
    trajectories: dict[InferenceKey, Published] = field(default_factory=dict)
    waiting: set[InferenceKey] = field(default_factory=set)
    """Judged, but their policy is not known yet."""
    no_longer_waiting: set[InferenceKey] = field(default_factory=set)
    priced: set[PolicyKey] = field(default_factory=set)
    """Policies whose token price may have moved."""
    events: list[TrajectoryScored] = field(default_factory=list)
    causes: dict[InferenceKey, str] = field(default_factory=dict)
    """The fact behind each trajectory's new revision, by its event id."""


class Book:
    """Everything known, or the part of it that a batch touches together with all that concerns that part."""

    def __init__(
        self,
        *,
        inferences: Iterable[InferenceCompleted] = (),
        opinions: Iterable[Opinion] = (),
        trajectories: Mapping[InferenceKey, Published] | None = None,
        specs: Mapping[PolicyKey, Spec] | None = None,
        windows: Mapping[PolicyKey, Window] | None = None,
        waiting: Iterable[InferenceKey] = (),
    ) -> None:
        self.inferences: dict[InferenceKey, InferenceCompleted] = {}
        self.opinions: dict[OpinionKey, Opinion] = {}
        self.trajectories = dict(trajectories or {})
        self.specs = dict(specs or {})
        self.windows = defaultdict(Window, windows or {})
        self.waiting = set(waiting)
        self._named: defaultdict[tuple[str, str], set[InferenceKey]] = defaultdict(set)
        self._said: defaultdict[tuple[str, str], set[OpinionKey]] = defaultdict(set)
        self._touched: dict[InferenceKey, str] = {}
        self._changes = Changes()
        for inference in inferences:
            self._index(inference)
        for opinion in opinions:
            self._hold(opinion)

    # ---- facts ------------------------------------------------------------------------------------------------------
    def add_inference(self, inference: InferenceCompleted, cause: str = "") -> None:
        """An inference became known; what was said of it waits for it or comes later."""
        key = InferenceKey(inference.project, inference.inference_id)
        if key in self.inferences:
            return
        self._index(inference)
        self._changes.inferences[key] = inference
        self._touched[key] = cause

    def add_opinion(self, opinion: Opinion, cause: str = "") -> None:
        """A revision of an opinion became known; an older one than the one held changes nothing."""
        held = self.opinions.get(opinion.key)
        if held is not None:
            if held.order >= opinion.order:
                return
            self.revisit(self._concerned(held), cause)
            self._release(held)
        self._hold(opinion)
        self._changes.opinions[opinion.key] = opinion
        self.revisit(self._concerned(opinion), cause)

    def add_spec(self, policy: PolicyKey, spec: Spec, cause: str = "") -> None:
        """A policy's spec became known: it scores what waits for it and what is judged from now on."""
        held = self.specs.get(policy)
        if held is None or held.revision < spec.revision:
            self.specs[policy] = spec
            self._changes.specs[policy] = spec
            self.revisit((key for key in self.waiting if self._policy(key) == policy), cause)

    def revisit(self, keys: Iterable[InferenceKey], cause: str = "") -> None:
        """Score these again."""
        self._touched.update(dict.fromkeys(sorted(keys), cause))

    # ---- what follows -----------------------------------------------------------------------------------------------
    def settle(self) -> Changes:
        """Score what was touched since the last time."""
        for key, cause in self._touched.items():
            if key in self.inferences:
                self._score(key, cause)
        changes, self._changes, self._touched = self._changes, Changes(), {}
        return changes

    def _score(self, key: InferenceKey, cause: str) -> None:
        inference = self.inferences[key]
        mine = self._opinions_about(inference)
        for opinion in mine:
            if not opinion.matched:
                self._changes.opinions[opinion.key] = self.opinions[opinion.key] = opinion.found()
        if not mine and key not in self.trajectories:
            return
        policy = (inference.project, inference.policy)
        spec = self.specs.get(policy)
        if spec is None:
            self.waiting.add(key)
            self._changes.waiting.add(key)
            return
        if key in self.waiting:
            self.waiting.discard(key)
            self._changes.no_longer_waiting.add(key)
        before = self.trajectories.get(key)
        scored, quality = compose(inference, about(inference.inference_id, mine), spec.reward, spec.digest)
        price = self._price(inference, quality, spec, before)
        if spec.reward.token_cost is not None:
            scored = priced(scored, quality, price, inference, spec.reward.token_cost.ceiling)
        if before is None and not scored.feedback_ids:
            return  # nothing that any part listens to was said of it
        if before is not None and before.scored == scored:
            return
        published = Published((before.revision if before else 0) + 1, scored, quality, price)
        self.trajectories[key] = self._changes.trajectories[key] = published
        behind = [opinion for opinion in mine if opinion.feedback_id in scored.feedback_ids] or mine
        at = max([inference.occurred_at, *(opinion.recorded_at for opinion in behind)])
        self._changes.causes[key] = cause
        self._changes.events.append(trajectory(inference, published, at))

    def _price(
        self, inference: InferenceCompleted, quality: float | None, spec: Spec, before: Published | None
    ) -> Price | None:
        """The price that it got when it was first judged under this spec, or gets now; and note the judgement."""
        if spec.reward.token_cost is None:
            return None
        policy = (inference.project, inference.policy)
        window = self.windows[policy]
        self._changes.priced.add(policy)
        price = before.price if before else None
        if quality is None:
            window.drop(inference.occurred_at, inference.inference_id)
            return price
        if price is None or price.spec_digest != spec.digest:
            price = window.price(spec.reward.token_cost, spec.digest, inference.segment)
        if inference.state == "completed":
            window.put(
                Judged(inference.occurred_at, inference.inference_id, quality, tokens_of(inference), inference.segment)
            )
        return price

    # ---- who concerns whom ------------------------------------------------------------------------------------------
    def _opinions_about(self, inference: InferenceCompleted) -> list[Opinion]:
        names = [*targets_of(inference), f"compared:{inference.inference_id}"]
        keys = {key for name in names for key in self._said.get((inference.project, name), ())}
        return [self.opinions[key] for key in sorted(keys)]

    def _concerned(self, opinion: Opinion) -> list[InferenceKey]:
        project = opinion.key.project
        named = set(self._named.get((project, opinion.key.target), ()))
        named |= {InferenceKey(project, inference_id) for inference_id in opinion.compared or ()}
        return sorted(named)

    def _policy(self, key: InferenceKey) -> PolicyKey | None:
        inference = self.inferences.get(key)
        return (inference.project, inference.policy) if inference else None

    def _index(self, inference: InferenceCompleted) -> None:
        key = InferenceKey(inference.project, inference.inference_id)
        self.inferences[key] = inference
        for target in targets_of(inference):
            self._named[inference.project, target].add(key)

    def _names(self, opinion: Opinion) -> list[tuple[str, str]]:
        compared = (f"compared:{inference_id}" for inference_id in opinion.compared or ())
        return [(opinion.key.project, name) for name in (opinion.key.target, *compared)]

    def _hold(self, opinion: Opinion) -> None:
        self.opinions[opinion.key] = opinion
        for name in self._names(opinion):
            self._said[name].add(opinion.key)

    def _release(self, opinion: Opinion) -> None:
        for name in self._names(opinion):
            self._said[name].discard(opinion.key)


def trajectory(inference: InferenceCompleted, published: Published, at: datetime) -> TrajectoryScored:
    """The event: all that a trainer needs, complete."""
    return TrajectoryScored(
        project=inference.project,
        occurred_at=at,
        trajectory_id=inference.inference_id,
        revision=published.revision,
        episode_id=inference.episode_id,
        policy=inference.policy,
        policy_version=inference.policy_version,
        adapter_digest=inference.adapter_digest,
        messages=inference.messages,
        completion=inference.completion,
        prompt_token_ids=inference.prompt_token_ids,
        completion_token_ids=inference.completion_token_ids,
        logprobs=inference.logprobs,
        sampling=inference.sampling,
        engine=inference.engine,
        finish_reason=inference.finish_reason,
        segment=inference.segment,
        **{name: getattr(published.scored, name) for name in type(published.scored).model_fields},
    )
