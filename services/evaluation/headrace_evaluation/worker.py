"""The worker: plans what is due, claims it under a lease, asks, scores, judges, publishes.

Every answer is kept as it comes, so that a worker that is killed costs at most the answers in flight, and the
champion's answers serve every later candidate.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from headrace_evaluation.asking import Asker, NoAnswerError
from headrace_evaluation.core.looks import looks
from headrace_evaluation.core.planning import Comparison, Waiting, plan, still_holds, subject
from headrace_evaluation.core.suite import Case, Suite
from headrace_evaluation.core.verdict import Answered, Pair, Verdict, decide, settled
from headrace_evaluation.settings import EvaluationSettings
from headrace_evaluation.store import Job, Store
from headrace_evaluation.vault import SealBrokenError, Vault
from headrace_kit.errors import Fenced, HeadraceError, Retryable
from headrace_kit.logging import canonical
from headrace_kit.service import Service
from headrace_kit.work import Work
from headrace_schemas import EvaluationCompleted, PolicySpec
from headrace_schemas.base import VersionRef
from headrace_scoring.rules import judge_rule

log = structlog.get_logger()
_LONGEST_REST_S = 30.0


@dataclass
class Trouble:
    """Why cases are missing: the first reason, and whether only our own set-up is to blame."""

    because: str = ""
    ours: bool = False
    stop: bool = False
    """Asking on would fail likewise and take long."""

    def note(self, error: NoAnswerError) -> None:
        self.stop = self.stop or error.curable or error.ours
        if not self.because:
            self.because, self.ours = str(error), error.ours


async def look(work: Work) -> tuple[list[Comparison], list[Waiting]]:
    """What is due for every policy, and what waits, by all that is known at the moment."""
    store = Store(work.session)
    routes, replicas, suites = await store.routes(), await store.replicas(), await store.suite_digests()
    due, waiting = list[Comparison](), list[Waiting]()
    for name, policy in (await store.policies()).items():
        route = routes.get(name)
        if route is None or not route.load:
            continue
        found, rest = plan(
            PolicySpec.model_validate(policy.spec),
            route,
            registered=await store.registered(name),
            replicas=replicas,
            suites=suites,
            now=work.now,
        )
        due += found
        waiting += rest
    return due, waiting


class Worker:
    """One job at a time; more processes take more jobs."""

    def __init__(self, service: Service, settings: EvaluationSettings, vault: Vault, asker: Asker) -> None:
        self._service = service
        self._settings = settings
        self._vault = vault
        self._asker = asker
        self._turns = asyncio.Semaphore(settings.concurrency)
        self._lease = timedelta(seconds=settings.lease_s)

    async def run(self) -> None:
        """Until cancelled; an outage of the database is waited out."""
        while True:
            try:
                busy = await self.step()
            except Retryable as error:
                log.warning("worker waits", error=str(error))
                busy = False
            if not busy:
                await asyncio.sleep(self._settings.poll_s)

    async def step(self) -> bool:
        """Plan, and make at most one comparison. Answers whether there was one."""
        async with self._service.unit_of_work() as work:
            store = Store(work.session)
            due, _ = await look(work)
            for comparison in due:
                await store.add_job(comparison, work.now)
            await store.supersede_all_but([c.evaluation_id for c in due])
        async with self._service.unit_of_work() as work:
            job = await Store(work.session).claim(work.now, self._lease)
        if job is None:
            return False
        told = job.comparison
        with canonical(
            "evaluation",
            policy=told.policy,
            candidate=told.candidate.version,
            champion=told.champion.version,
            suite=told.suite,
            evaluation_id=told.evaluation_id,
            attempt=job.claims,
        ) as line:
            try:
                line["outcome"] = await self._compare(job)
            except Fenced as error:
                line["outcome"], line["because"] = "lost", str(error)
        return True

    async def _compare(self, job: Job) -> str:
        """One job from its suite to its report: what became of it, in a word."""
        started = self._service.clock.monotonic()
        told = job.comparison
        spec_of = await self._gate(job)
        suite = await self._open(job) if spec_of is not None else None
        if spec_of is None or suite is None:
            return "superseded"
        trouble, asked, pairs = Trouble(), list[int](), list[Pair]()
        heaviest = max(case.weight for case in suite.cases)
        versions = [(told.candidate, None), (told.champion, self._champion_since(job))]
        sides = [(version, await self._known(told, version, since)) for version, since in versions]
        for look in looks(len(suite.cases), told.candidate.digest):
            await self._ask(job, suite, look, sides, trouble)
            asked += look
            (_, candidate), (_, champion) = sides
            pairs = [
                Pair(candidate[n], champion[n], suite.cases[n].weight / heaviest)
                for n in asked
                if n in candidate and n in champion
            ]
            if trouble.because or settled(spec_of.gate, pairs):
                break
        if trouble.because and (trouble.ours or job.failures + 1 < self._settings.failures):
            await self._put_back(job, trouble)
            return "put back"
        spec_of = await self._gate(job)
        if spec_of is None:
            return "superseded"
        verdict = decide(spec_of.gate, pairs, expected=len(asked), trouble=trouble.because)
        return await self._finish(job, verdict, self._service.clock.monotonic() - started)

    async def _ask(
        self,
        job: Job,
        suite: Suite,
        look: list[int],
        sides: list[tuple[VersionRef, dict[int, Answered]]],
        trouble: Trouble,
    ) -> None:
        """The cases of one look that have no answer yet, both versions in the same minutes."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in look:
                    for version, known in sides:
                        if number not in known:
                            case = suite.cases[number]
                            group.create_task(self._answer(job, suite, version, number, case, known, trouble))
        except ExceptionGroup as several:
            bug = next((e for e in several.exceptions if not isinstance(e, HeadraceError)), several.exceptions[0])
            raise bug from None

    async def _open(self, job: Job) -> Suite | None:
        told = job.comparison
        async with self._service.unit_of_work() as work:
            store = Store(work.session)
            sealed = await store.sealed(told.suite, told.suite_digest)
            if sealed is None:
                await self._hold_fast(store, job, state="superseded")
                return None
            why = f"v{told.candidate.version} of {told.policy} against v{told.champion.version}"
            await store.note_access(work.now, "evaluation", "opened", told.suite, told.suite_digest, why)
        try:
            return self._vault.open(told.suite, told.suite_digest, sealed)
        except SealBrokenError as error:
            await self._put_back(job, Trouble(str(error), ours=True))
            raise Fenced(str(error)) from None

    def _champion_since(self, job: Job) -> datetime | None:
        """Latencies compare only where both were measured in the same minutes."""
        return job.created_at if job.comparison.compares_latency else None

    async def _known(self, told: Comparison, version: VersionRef, since: datetime | None) -> dict[int, Answered]:
        async with self._service.unit_of_work() as work:
            return await Store(work.session).answers(told.suite_digest, subject(version, told.base_model), since)

    async def _answer(
        self,
        job: Job,
        suite: Suite,
        version: VersionRef,
        number: int,
        case: Case,
        known: dict[int, Answered],
        trouble: Trouble,
    ) -> None:
        told = job.comparison
        async with self._turns:
            if trouble.stop:
                return
            try:
                reply = await self._asker.ask(told.policy, version, case, suite.max_tokens)
            except NoAnswerError as error:
                trouble.note(error)
                return
        score = judge_rule(case.rule, reply.text)
        answer = Answered(score.value, score.met, reply.tokens, reply.latency_s)
        async with self._service.unit_of_work() as work:
            store = Store(work.session)
            await self._hold_fast(store, job, due_at=work.now + self._lease)
            await store.keep_answer(told.suite_digest, subject(version, told.base_model), number, answer, work.now)
        known[number] = answer

    async def _hold_fast(self, store: Store, job: Job, **values: object) -> None:
        if not await store.change_job(job, **values):
            raise Fenced("another worker has the job")

    async def _put_back(self, job: Job, trouble: Trouble) -> None:
        rest = min(2.0**job.failures, _LONGEST_REST_S)
        log.warning(
            "evaluation put back",
            policy=job.comparison.policy,
            candidate=job.comparison.candidate.version,
            because=trouble.because,
            again_in_s=rest,
        )
        async with self._service.unit_of_work() as work:
            await self._hold_fast(
                Store(work.session),
                job,
                state="queued",
                due_at=work.now + timedelta(seconds=rest),
                because=trouble.because,
                failures=job.failures if trouble.ours else job.failures + 1,
            )

    async def _gate(self, job: Job) -> PolicySpec | None:
        async with self._service.unit_of_work() as work:
            return await self._current(Store(work.session), job)

    async def _current(self, store: Store, job: Job) -> PolicySpec | None:
        """The policy's spec where the job's comparison is still the one that is wanted; else the job ends."""
        told = job.comparison
        policy, route = (await store.policies()).get(told.policy), (await store.routes()).get(told.policy)
        if policy is not None and route is not None:
            spec = PolicySpec.model_validate(policy.spec)
            if still_holds(told, spec, route, (await store.suite_digests()).get(told.suite)):
                return spec
        await self._hold_fast(store, job, state="superseded")
        return None

    async def _finish(self, job: Job, verdict: Verdict, duration_s: float) -> str:
        """Report and event in one transaction, unless the world has changed meanwhile or the lease is lost."""
        told = job.comparison
        async with self._service.unit_of_work() as work:
            store = Store(work.session)
            if await self._current(store, job) is None:
                return "superseded"
            await self._hold_fast(store, job, state="done", because=verdict.because)
            report = EvaluationCompleted(
                project=told.project,
                occurred_at=work.now,
                evaluation_id=told.evaluation_id,
                policy=told.policy,
                candidate_version=told.candidate.version,
                candidate_digest=told.candidate.digest,
                champion_version=told.champion.version,
                champion_digest=told.champion.digest,
                suite=told.suite,
                suite_digest=told.suite_digest,
                gate_digest=told.gate_digest,
                verdict=verdict.verdict,
                because=verdict.because,
                statistics=verdict.statistics,
                guards=verdict.guards,
                duration_s=duration_s,
            )
            await store.add_report(report)
            work.publish(report)
        return verdict.verdict
