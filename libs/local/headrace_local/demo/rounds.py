"""The demo's story: measure, ask and judge, wait for the version, measure again; at the end go back and look."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace_local.demo.asking import Assistant, Round
from headrace_local.demo.control import Control
from headrace_local.demo.errors import DemoError
from headrace_local.demo.facts import Facts, Measurement, Rollback, VersionFacts
from headrace_local.demo.following import Followed, follow
from headrace_local.demo.options import SUITE, DemoOptions
from headrace_local.demo.screen import Screen
from headrace_local.demo.world import World

ROLLBACK_TIMEOUT_S = 60.0
_WITHOUT_VERSION = 2
"""So many rounds in a row may bring no version."""


class Rounds:
    """One demo on a stack that is ready."""

    def __init__(
        self, options: DemoOptions, world: World, assistant: Assistant, control: Control, facts: Facts, screen: Screen
    ) -> None:
        self._options = options
        self._world = world
        self._assistant = assistant
        self._control = control
        self._facts = facts
        self._screen = screen
        self._known_runs: set[str] = set()

    async def prepare(self, policy: dict[str, object]) -> None:
        """Apply the policy and push the private suite."""
        with self._stage("start"):
            await self._control.apply(policy)
            await self._control.push_suite(SUITE, self._world.suite_cases(), self._options.max_tokens)
            await self._control.gateway_ready()

    async def play(self) -> None:
        """Rounds until users are satisfied or the events run out. Raises DemoError."""
        facts, options = self._facts, self._options
        await self._measure("base")
        newest, without = 0, 0
        while not facts.reached and facts.events + options.per_round <= options.events:
            self._known_runs = {str(run["run_id"]) for run in (await self._control.runs())[0]}
            await self._ask()
            followed = await self._follow(newest)
            if followed.row is None:
                without += 1
                facts.notes.append(
                    f"After {facts.events} pieces of feedback the run ended without a version: {followed.outcome}."
                )
                self._screen.say(f"[yellow]{facts.notes[-1]}[/]")
                if without >= _WITHOUT_VERSION:
                    raise DemoError(f"{without} rounds in a row brought no version: {followed.outcome}.")
                continue
            without = 0
            newest = int(followed.row["version"])
            version = await self._version_facts(followed)
            facts.versions.append(version)
            if version.outcome == "promoted":
                await self._measure(f"[green]promoted[/], e-value {version.e_value or 0:.3g}")
            else:
                self._screen.unmoved(version)

    async def go_back(self) -> None:
        """Roll the champion back and look whether the old answers are back; forward again with --keep."""
        facts = self._facts
        if len(facts.curve) < 2:
            return
        newer, older = facts.curve[-1], facts.curve[-2]
        shown = facts.best_examples()
        with self._stage("rollback"), self._screen.task("rolling back"):
            began = time.monotonic()
            await self._control.roll_back("the demo shows that it can")
            # Answers of one token, so that what is timed is the move and not the length of an old answer.
            while (answered_by := (await self._assistant.greedy(facts.questions[shown[0]], 1))[0]) == newer.version:
                if time.monotonic() - began > ROLLBACK_TIMEOUT_S:
                    raise DemoError(f"v{newer.version} still answers {ROLLBACK_TIMEOUT_S:.0f} s after the rollback.")
            seconds = time.monotonic() - began
            answers = [await self._assistant.greedy(facts.questions[i]) for i in shown]
        facts.rollback = Rollback(
            newer.version,
            answered_by,
            seconds,
            tuple(facts.questions[i] for i in shown),
            tuple(newer.answers[i] for i in shown),
            tuple(text for _, text in answers),
            tuple(older.answers[i] for i in shown),
        )
        self._screen.say(
            f"Rolled back from v{newer.version} to v{answered_by} in {seconds:.2f} s; "
            f"{facts.rollback.same} of {len(shown)} old answers are back, word for word."
        )
        if self._options.keep:
            await self._control.promote(newer.version, "the demo goes forward again")

    # ---- steps ------------------------------------------------------------------------------------------------------
    async def _ask(self) -> None:
        facts = self._facts
        with self._stage("asking"), self._screen.task("users ask", self._options.per_round) as bar:

            def on_answer(so_far: Round) -> None:
                bar.on(so_far.events, f"users ask: {so_far.requests} answers, feedback")

            done = await self._assistant.round(on_answer)
        facts.events += done.events
        facts.reactions.update(done.reactions)
        facts.asked_liked.append((facts.events, done.liked / max(1, done.requests)))

    async def _follow(self, newest: int) -> Followed:
        with self._screen.task("training") as bar:
            followed = await follow(
                self._control,
                newest,
                self._known_runs,
                self._options.training_timeout_s,
                self._options.gate_timeout_s,
                bar.now,
            )
        self._facts.stages_s["training"] += followed.train_s
        self._facts.stages_s["gate"] += followed.gate_s
        return followed

    async def _version_facts(self, followed: Followed) -> VersionFacts:
        row = followed.row
        assert row is not None
        told = await self._control.explain(int(row["version"]))
        reports = told["reports"]
        return VersionFacts(
            version=int(row["version"]),
            events=self._facts.events,
            outcome=followed.outcome,
            verdict=row["verdict"],
            because=(reports[0]["because"] if reports else None) or row["reason"] or "",
            candidate=row["candidate_score"],
            champion=row["champion_score"],
            e_value=row["e_value"],
            train_s=round(followed.train_s, 2),
            gate_s=round(followed.gate_s, 2),
            parent=row["parent_version"],
            samples=row["samples"],
        )

    async def _measure(self, gate: str) -> Measurement:
        with self._stage("held_out"), self._screen.task("held-out questions", len(self._world.held_out)) as bar:
            measured = await self._assistant.measure(self._facts.events, bar.on)
        self._facts.curve.append(measured)
        self._screen.measured(measured, gate)
        return measured

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._facts.stages_s[name] += time.monotonic() - began
