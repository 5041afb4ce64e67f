"""A loop's life as events: a base model that nobody likes, a first version that the gate holds back, a second that it
promotes. Deterministic.
"""

import random
import uuid
from datetime import UTC, datetime, timedelta

from headrace_schemas import (
    AdapterObserved,
    AdapterRegistered,
    CheckpointSaved,
    EvaluationCompleted,
    FeedbackRecorded,
    InferenceCompleted,
    PolicyChanged,
    RouteChanged,
    TrajectoryScored,
)
from headrace_schemas.ids import engine_model, episode_id, inference_id

START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
D = "0123456789abcdef" * 4
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
ITEMS = ("kettle", "desk lamp", "backpack", "headphones", "raincoat", "bicycle pump")
ASKS = (
    "Where is my {}?",
    "Can I send the {} back?",
    "The {} arrived broken. What now?",
    "How long is the {} under warranty?",
)


def digest(n):
    return f"{n:064x}"


def ref(policy, version):
    if version == 0:
        return {"version": 0, "engine_model": BASE}
    d = digest(version)
    return {
        "version": version,
        "digest": d,
        "object_key": f"adapters/{d}",
        "size_bytes": 9,
        "engine_model": engine_model(policy, version, d),
    }


class Story:
    def __init__(self, policy="support", seed=7, start=START, every_s=4.0):
        self.policy, self.at, self.every = policy, start, timedelta(seconds=every_s)
        self.rng = random.Random(seed)
        self.events, self.epoch, self.sequence = [], 0, 0

    def tell(self):
        """The whole life."""
        self.applied()
        self.route(champion=0)
        self.answers(0, 70, like=0.12, tokens=39)
        self.version(1, parent=0, samples=32, candidate=0.31, champion=0.10, verdict="hold", e=3.1)
        self.answers(0, 30, like=0.12, tokens=39)
        self.version(2, parent=0, samples=64, candidate=0.92, champion=0.10, verdict="promote", e=48_000)
        self.route(champion=2, previous=0)
        self.answers(2, 110, like=0.9, tokens=12)
        self.version(3, parent=2, samples=96, candidate=0.85, champion=0.92, verdict="reject", e=0.2)
        self.answers(2, 20, like=0.92, tokens=12)
        self.version(4, parent=2, samples=121, candidate=0.97, champion=0.92, verdict=None, e=0)
        self.observed(ready=(2, 4))
        return self.events

    def _uuid(self):
        return uuid.UUID(int=self.rng.getrandbits(128))

    def _add(self, event):
        self.events.append(event)
        return event

    def applied(self, revision=1):
        spec = {"policy": self.policy, "base_model": BASE, "train": {"trigger": {"events": 32}}}
        self._add(PolicyChanged(occurred_at=self.at, policy=self.policy, revision=revision, digest=D, spec=spec))

    def route(self, champion, previous=None, load=()):
        self.epoch += 1
        self._add(
            RouteChanged(
                occurred_at=self.at,
                policy=self.policy,
                base_model=BASE,
                epoch=self.epoch,
                champion=ref(self.policy, champion),
                previous=None if previous is None else ref(self.policy, previous),
                load=[ref(self.policy, v) for v in load],
            )
        )
        self._standing = (champion, previous)

    def observed(self, ready=(), healthy=True):
        self.sequence += 1
        probe = {"finite": True, "differs_from_base": True, "seconds": 1.2}
        adapters = [
            {
                "policy": self.policy,
                "version": v,
                "digest": digest(v),
                "engine_model": ref(self.policy, v)["engine_model"],
                "state": "ready",
                "probe": probe,
            }
            for v in ready
        ]
        self._add(
            AdapterObserved(
                occurred_at=self.at,
                replica="local",
                sequence=self.sequence,
                url="http://127.0.0.1:1",
                healthy=healthy,
                base_model=BASE,
                engine={"base_model": BASE, "engine_version": "0.32.0"},
                adapters=adapters,
            )
        )

    def inference(self, version, tokens, question, answer, state="completed", **more):
        episode = episode_id(self._uuid())
        return self._add(
            InferenceCompleted(
                occurred_at=self.at,
                inference_id=inference_id(episode, self._uuid()),
                episode_id=episode,
                policy=self.policy,
                policy_version=version,
                messages=[{"role": "system", "content": "Be of help."}, {"role": "user", "content": question}],
                completion=answer,
                engine={"base_model": BASE},
                state=state,
                usage={"prompt_tokens": 30, "completion_tokens": tokens},
                latency_s=0.8,
                **more,
            )
        )

    def feedback(self, inference, metric, value, comment=None, **target):
        self.sequence += 1
        return self._add(
            FeedbackRecorded(
                occurred_at=self.at,
                recorded_at=self.at,
                feedback_id=f"fb_{self._uuid().hex}",
                revision=1,
                sequence=self.sequence,
                metric_name=metric,
                value=value,
                comment=comment,
                source={"kind": "human", "id": f"u{self.rng.randrange(20)}"},
                **(target or {"inference_id": inference.inference_id}),
            )
        )

    def trajectory(self, inference, reward, revision=1, directives=()):
        return self._add(
            TrajectoryScored(
                occurred_at=self.at,
                trajectory_id=inference.inference_id,
                revision=revision,
                episode_id=inference.episode_id,
                policy=self.policy,
                policy_version=inference.policy_version,
                engine={"base_model": BASE},
                reward=reward,
                directives=directives,
                spec_digest=D,
            )
        )

    def answers(self, version, count, like, tokens):
        for number in range(count):
            self.at += self.every
            item = self.rng.choice(ITEMS)
            question = self.rng.choice(ASKS).format(item)
            good = self.rng.random() < like
            answer = (
                f"Your {item} is on its way and arrives on Tuesday."
                if good
                else f"Thank you for reaching out to us about your {item}. We understand how important this is to you, and there are several things that you may want to consider:\n1. Check your account."
            )
            given = self.inference(
                version,
                max(1, round(self.rng.gauss(tokens if good or version == 0 else tokens * 2, 4))),
                question,
                answer,
            )
            if number % 41 == 40:
                self.inference(version, 0, question, "", state="upstream_failed")
            if self.rng.random() < 0.25:
                continue  # most people say nothing
            self.feedback(given, "accepted", good)
            if not good and self.rng.random() < 0.2:
                self.feedback(given, "demonstration", f"The {item} arrives on Tuesday.")
                self.trajectory(given, float(good))
                self.trajectory(given, 0.1, revision=2, directives=[{"kind": "correction", "text": "x"}])
            else:
                self.trajectory(given, float(good), revision=1)
            if number % 37 == 3:
                self.feedback(given, "comment", "Say which item you mean.")
        self.observed(ready=[v for v in self._standing if v])

    def version(self, number, parent, samples, candidate, champion, verdict, e):
        self.at += timedelta(seconds=25)
        run = f"run-{number:04d}"
        fields = {
            "policy": self.policy,
            "base_model": BASE,
            "run_id": run,
            "parent_version": parent,
            "manifest_digest": D,
            "recipe": "default",
            "recipe_digest": D,
            "spec_digest": D,
        }
        self._add(
            CheckpointSaved(
                occurred_at=self.at,
                digest=digest(number),
                object_key="k",
                size_bytes=9,
                manifest_key="m",
                samples=samples,
                fencing_token=number,
                **fields,
            )
        )
        self._add(AdapterRegistered(occurred_at=self.at, adapter=ref(self.policy, number), policy_digest=D, **fields))
        self.route(*self._standing, load=[number])
        if verdict:
            self.at += timedelta(seconds=15)
            now = self._standing[0]
            self._add(
                EvaluationCompleted(
                    occurred_at=self.at,
                    evaluation_id=f"ev-{self.policy}-{number}",
                    policy=self.policy,
                    candidate_version=number,
                    candidate_digest=digest(number),
                    champion_version=now,
                    champion_digest=digest(now) if now else "",
                    suite="support-private",
                    suite_digest=D,
                    gate_digest=D,
                    verdict=verdict,
                    because=f"{candidate:.2f} against {champion:.2f} over 40 cases",
                    statistics={
                        "cases": 40,
                        "candidate": candidate,
                        "champion": champion,
                        "e_value": e,
                        "e_harm": 0.5,
                        "alpha": 0.05,
                    },
                    duration_s=15,
                )
            )
            if verdict != "promote":
                self.route(*self._standing)
