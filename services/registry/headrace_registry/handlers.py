"""Facts that the registry follows: load → core → save → publish."""

from headrace_kit.consumer import Consumer
from headrace_kit.errors import Rejected
from headrace_kit.work import Work
from headrace_registry.core.lifecycle import State
from headrace_registry.core.promotion import Pending, Step, judge
from headrace_registry.core.version import Version, refusal
from headrace_registry.moves import Moves, Place
from headrace_registry.store import Store
from headrace_schemas import AdapterObserved, AdapterRegistered, CheckpointSaved, EvaluationCompleted
from headrace_schemas.ids import engine_model


def register(consumer: Consumer) -> None:
    consumer.on(CheckpointSaved, on_checkpoint)
    consumer.on(EvaluationCompleted, on_evaluation)
    consumer.on(AdapterObserved, on_observed)


async def on_checkpoint(event: CheckpointSaved, work: Work) -> None:
    """The next version of the policy; the same file twice is one version."""
    store = Store(work.session)
    policy, route = await store.policy(event.policy, lock=True), await store.route(event.policy)
    if policy is None or route is None:
        raise Rejected("unknown_policy", f"no policy is called {event.policy}", "policy")
    if await store.version_of_digest(event.policy, event.digest) is not None:
        return
    parent = await store.version(event.policy, event.parent_version)
    reason = refusal(event, highest_token=policy.fencing_token, base_model=policy.base_model, parent=parent)
    number = policy.last_version + 1
    policy = policy._replace(last_version=number, fencing_token=max(policy.fencing_token, event.fencing_token))
    version = Version(
        policy=event.policy,
        version=number,
        digest=event.digest,
        object_key=event.object_key,
        size_bytes=event.size_bytes,
        engine_model=engine_model(event.policy, number, event.digest),
        base_model=event.base_model,
        state=State.REJECTED if reason else State.REGISTERED,
        state_at=work.now,
        reason=reason or "",
        verdict=None,
        lineage=event.model_dump(mode="json"),
        policy_digest=policy.digest,
        policy_revision=policy.revision,
        registered_at=work.now,
    )
    await store.put_policy(policy)
    await store.add_version(version)
    await store.note(
        work.now,
        "registry",
        "rejected" if reason else "registered",
        policy=event.policy,
        version=number,
        reason=reason or f"checkpoint of run {event.run_id}",
        digest=event.digest,
    )
    if reason is None:
        await Moves(store, work).change_route(Place(policy, route), route.with_candidate(number))
        work.publish(_registered(version, event, work))


def _registered(version: Version, event: CheckpointSaved, work: Work) -> AdapterRegistered:
    return AdapterRegistered(
        project=event.project,
        occurred_at=work.now,
        policy=event.policy,
        base_model=event.base_model,
        adapter=version.ref(),
        parent_version=event.parent_version,
        run_id=event.run_id,
        manifest_digest=event.manifest_digest,
        recipe=event.recipe,
        recipe_digest=event.recipe_digest,
        spec_digest=event.spec_digest,
        policy_digest=version.policy_digest,
    )


async def on_evaluation(event: EvaluationCompleted, work: Work) -> None:
    """Keep the report; do what follows from it by `core.promotion.judge`."""
    store = Store(work.session)
    moves = Moves(store, work)
    place, version = (
        await moves.place(event.policy, turn=True),
        await store.version(event.policy, event.candidate_version),
    )
    if place is None or version is None or version.digest != event.candidate_digest:
        raise Rejected("unknown_version", f"{event.policy} has no v{event.candidate_version} of that digest")
    await store.add_report(event, work.now)
    champion = await store.version(event.policy, place.route.champion)
    assert champion is not None
    verdict = judge(
        event,
        state=version.state,
        forced=version.pending is not None and version.pending.forced,
        spec=place.policy.parsed(),
        champion_version=champion.version,
        champion_digest=champion.digest,
    )
    if verdict.step is Step.KEEP:
        await store.note(
            work.now,
            "registry",
            "report-kept",
            policy=event.policy,
            version=version.version,
            reason=verdict.because,
            evaluation_id=event.evaluation_id,
        )
    elif verdict.step is Step.REJECT:
        await moves.reject(place, version, "gate", verdict.because, event.verdict)
    else:
        keep = verdict.step in (Step.PROMOTE, Step.WAIT)
        await moves.evaluated(place, version, event.verdict, verdict.because, keep=keep)
        if verdict.step is Step.PROMOTE:
            version = await store.version(event.policy, version.version)
            assert version is not None
            await moves.decide(place, version, Pending("promote", "gate", verdict.because, forced=False, at=work.now))


async def on_observed(event: AdapterObserved, work: Work) -> None:
    """Keep a replica's newest state and its first proofs; reject what failed; make the moves that waited for it."""
    store = Store(work.session)
    moves = Moves(store, work)
    proofs = [
        {
            "policy": a.policy,
            "version": a.version,
            "replica": event.replica,
            "state": a.state,
            "at": event.occurred_at,
            "probe": a.probe.model_dump(mode="json") if a.probe else None,
        }
        for a in event.adapters
        if a.state in ("ready", "failed")
    ]
    await store.add_proofs(proofs)
    if not await store.put_replica(event):
        return
    for seen in event.adapters:
        version = await store.version(seen.policy, seen.version) if seen.state == "failed" else None
        place = await moves.place(seen.policy, turn=True) if version else None
        if version is None or place is None or version.digest != seen.digest:
            continue
        why = f"not proved on {event.replica}: {seen.probe.reason if seen.probe else 'no reason given'}"
        if version.state in (State.REGISTERED, State.EVALUATED):
            await moves.reject(place, version, f"agent of {event.replica}", why)
        elif version.pending is not None:
            await moves.give_up(place, version, f"agent of {event.replica}", why)
    for name in sorted({a.policy for a in event.adapters if a.state == "ready"}):
        await moves.try_waiting(name)
