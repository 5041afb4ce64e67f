"""What people tell the registry to do. Each is one unit of work; refusals are Rejected with a code and a sentence."""

import secrets
from collections.abc import Callable

from headrace_kit.errors import Rejected
from headrace_kit.work import Work
from headrace_registry.core.lifecycle import State, allowed
from headrace_registry.core.policy import Policy, first, revised
from headrace_registry.core.promotion import Pending
from headrace_registry.core.route import Route
from headrace_registry.core.version import Version
from headrace_registry.moves import Moves, Place, RouteMovedError, event_of
from headrace_registry.store import Store
from headrace_schemas import KeyChanged, PolicySpec
from headrace_schemas.base import Json
from headrace_schemas.keys import ApiKey, hash_secret, parse_key, proves
from headrace_scoring.rules import rule_problem

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


async def apply_policy(work: Work, spec: PolicySpec, by: str) -> tuple[Policy, bool, bool]:
    """Put a policy file into force: the policy, whether anything changed, whether it is new."""
    for index, part in enumerate(spec.reward.parts):
        problem = rule_problem(part.rule) if part.kind == "rule" else None
        if problem is not None:
            raise Rejected("bad_pattern", problem, f"reward.parts.{index}.rule.matches")
    store = Store(work.session)
    known = await store.policy(spec.policy, lock=True)
    if known is None:
        policy = first(spec, work.now)
        if not await store.add_policy(policy):
            raise RouteMovedError(f"somebody else is applying {spec.policy} right now")
        base, route = _base_version(policy), Route(epoch=1, champion=0)
        await store.add_version(base)
        await store.add_route(spec.policy, route)
        work.publish(await event_of(store, policy, route, work))
    else:
        try:
            changed = revised(known, spec, work.now)
        except ValueError as error:
            raise Rejected("base_model_fixed", str(error), "base_model", 409) from None
        if changed is None:
            return known, False, False
        policy = changed
        await store.put_policy(policy)
        if policy.base_model != known.base_model:
            await _change_base(store, work, policy)
    await store.add_revision(policy, by)
    await store.note(
        work.now, by, "applied", policy=policy.policy, reason=f"revision {policy.revision}", digest=policy.digest
    )
    work.publish(policy.event())
    return policy, True, known is None


def _base_version(policy: Policy) -> Version:
    return Version(
        policy=policy.policy,
        version=0,
        digest="",
        object_key="",
        size_bytes=0,
        engine_model=policy.base_model,
        base_model=policy.base_model,
        state=State.CHAMPION,
        state_at=policy.updated_at,
        reason="the base model",
        verdict=None,
        lineage=None,
        policy_digest=policy.digest,
        policy_revision=policy.revision,
        registered_at=policy.updated_at,
        champion_at=policy.updated_at,
        champion_epoch=1,
    )


async def _change_base(store: Store, work: Work, policy: Policy) -> None:
    await store.replace_base(policy.policy, policy.base_model)
    old = await store.route(policy.policy)
    assert old is not None
    await Moves(store, work).change_route(Place(policy, old), Route(old.epoch + 1, 0))


# ---- aliases --------------------------------------------------------------------------------------------------------
Outcome = tuple[str, Route, str | None]
"""Status for the answer, the route afterwards, and what is waited for."""


async def _find(moves: Moves, name: str, number: int, expected: int | None) -> tuple[Place, Version]:
    place = await moves.place(name)
    if place is None:
        raise Rejected("unknown_policy", f"no policy is called {name}", "policy", 404)
    if expected is not None and place.route.epoch != expected:
        raise Rejected(
            "precondition_failed", f"the route is at epoch {place.route.epoch}, not {expected}: look again", None, 412
        )
    version = await moves.store.version(name, number)
    if version is None:
        raise Rejected("unknown_version", f"{name} has no v{number}", "version", 404)
    return place, version


async def promote(
    work: Work, name: str, number: int, *, by: str, reason: str, force: bool, expected: int | None
) -> Outcome:
    """Make a version champion, by its gate report or by force."""
    moves = Moves(Store(work.session), work)
    place, version = await _find(moves, name, number, expected)
    if version.state is State.CHAMPION:
        return "unchanged", place.route, None
    if version.version == 0:
        raise Rejected(
            "base_model", "the base model is gone back to, not promoted: roll back to version 0", "version", 409
        )
    if force and not reason:
        raise Rejected("reason_missing", "to promote past the gate needs a reason: the audit keeps it", "reason")
    why = None if force else await moves.outdated(place, version)
    if why is not None:
        raise Rejected("no_gate_report", f"v{number} is not promoted: {why}; force it with a reason", "version", 409)
    if not allowed(version.state, State.CHAMPION, forced=force):
        raise Rejected(
            "wrong_state", f"v{number} is {version.state} ({version.reason}); force it with a reason", "version", 409
        )
    pending = Pending("promote", by, reason or "its gate report says promote", forced=force, at=work.now)
    route, missing = await moves.decide(place, version, pending)
    return ("preparing" if missing else "promoted"), route, missing


async def roll_back(
    work: Work, name: str, number: int | None, *, by: str, reason: str, expected: int | None
) -> Outcome:
    """Back to the previous champion at once, or to a given one as soon as it is loaded."""
    moves = Moves(Store(work.session), work)
    place = await moves.place(name)
    if place is not None and number is None:
        number = place.route.previous
        if number is None:
            raise Rejected(
                "nothing_to_roll_back_to", f"v{place.route.champion} of {name} has no champion before it", None, 409
            )
    place, version = await _find(moves, name, number or 0, expected)
    if version.state is State.CHAMPION:
        return "unchanged", place.route, None
    if version.state is State.EVALUATED:
        raise Rejected("never_proved", f"v{version.version} was never champion: promote it instead", "version", 409)
    if not allowed(version.state, State.CHAMPION):
        raise Rejected(
            "never_proved",
            f"v{version.version} is {version.state} ({version.reason}): promote it with force if you mean it",
            "version",
            409,
        )
    pending = Pending("rollback", by, reason or "no reason given", forced=False, at=work.now)
    if version.version in (0, place.route.previous):
        return "rolled_back", await moves.finish(place, version, pending), None
    route, missing = await moves.decide(place, version, pending)
    return ("preparing" if missing else "rolled_back"), route, missing


# ---- keys -----------------------------------------------------------------------------------------------------------
async def make_key(
    work: Work,
    *,
    name: str,
    project: str,
    scopes: list[str],
    secret: str | None,
    by: str,
    token: Callable[[], str] = lambda: secrets.token_urlsafe(32),
) -> tuple[Json, str, bool]:
    """A new key, or one that was made elsewhere: its row, its text, and whether it is new."""
    store = Store(work.session)
    key = parse_key(secret) if secret else ApiKey("".join(secrets.choice(_ALPHABET) for _ in range(8)), token())
    if key is None:
        raise Rejected("bad_key", "a key is hr_, eight of a-z0-9, _, and at least 20 letters, digits, - or _", "secret")
    salt = secrets.token_hex(16)
    row: Json = {
        "prefix": key.prefix,
        "name": name,
        "project": project,
        "scopes": sorted(set(scopes)),
        "salt": salt,
        "hash": hash_secret(salt, key.secret),
        "revoked": False,
        "revision": 1,
        "created_at": work.now,
    }
    if not await store.add_key(row):
        known = await store.key(key.prefix)
        assert known is not None
        if not proves(key.secret, known["salt"], known["hash"]):
            raise Rejected("key_taken", f"another key has the prefix {key.prefix}", "secret", 409)
        if known["revoked"]:
            raise Rejected("key_revoked", f"the key {key.prefix} was revoked and stays so", "secret", 409)
        return known, key.text(), False
    await store.note(work.now, by, "key-made", reason=name, prefix=key.prefix, scopes=row["scopes"])
    work.publish(_key_event(row, work))
    return row, key.text(), True


async def revoke_key(work: Work, prefix: str, by: str) -> Json:
    """The key does not open anything any more; doing it again changes nothing."""
    store = Store(work.session)
    row = await store.revoke_key(prefix)
    if row is None:
        known = await store.key(prefix)
        if known is None:
            raise Rejected("unknown_key", f"no key has the prefix {prefix}", "prefix", 404)
        return known
    await store.note(work.now, by, "key-revoked", reason=row["name"], prefix=prefix)
    work.publish(_key_event(row, work))
    return row


def _key_event(row: Json, work: Work) -> KeyChanged:
    return KeyChanged(occurred_at=work.now, **{k: row[k] for k in KeyChanged.model_fields if k in row})
