"""Which version answers: the route's state, an explicit pin, an episode's pin, the canary's share."""

import hashlib
from collections.abc import Iterable
from typing import Literal, NamedTuple

from headrace_schemas import KeyChanged, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_serving.core.naming import ModelName
from headrace_serving.core.refusal import Refusal

Variant = Literal["champion", "candidate", "canary", "base", "pinned"]


class Choice(NamedTuple):
    """A version that may answer, and why."""

    ref: VersionRef
    variant: Variant
    propensity: float = 1.0


class Decision(NamedTuple):
    """What was decided at admission. `fallbacks` are tried in this order when the choice cannot be served."""

    route: RouteChanged
    choice: Choice
    fallbacks: tuple[Choice, ...]
    evaluation: bool
    """Asked by an evaluation: recorded without content, never learnt from."""


def base_of(route: RouteChanged) -> VersionRef:
    """The base model of a policy as version 0."""
    return VersionRef(version=0, engine_model=route.base_model)


def share_of(policy: str, sticky: str) -> float:
    """A number in [0, 1) that is the same for the same episode or actor, for ever."""
    digest = hashlib.sha256(f"{policy}\0{sticky}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / (1 << 56)


def decide(
    name: ModelName,
    routes: Iterable[RouteChanged],
    key: KeyChanged,
    *,
    sticky: str,
    pinned: int | None = None,
) -> Decision:
    """`sticky` is what the canary's share goes by (actor or episode); `pinned` is the episode's version, if it has one.

    Raises a Refusal: 404 for a policy or version that this project does not have, 403 without the needed scope.
    """
    mine = {r.policy: r for r in routes if r.project == key.project}
    route = mine.get(name.policy)
    if route is None:
        names = ", ".join(sorted(mine)[:20])
        there = f"there are {names}" if mine else "there is none yet: headrace apply -f policy.yaml"
        raise Refusal(
            404, "model_not_found", f"the project {key.project} has no policy {name.policy}; {there}", "model"
        )
    inference, evaluate = "inference" in key.scopes, "evaluate" in key.scopes
    if name.version is None and name.alias in (None, "champion"):
        return _routed(name, route, sticky, pinned, evaluation=not inference)
    choice = _named(name, route)
    if choice.variant == "candidate" and not evaluate:
        raise Refusal(
            403,
            "missing_scope",
            f"{name.policy}@v{choice.ref.version} is a candidate: no user sees it before its gate report, and asking "
            "it needs a key with the scope evaluate",
            "model",
            kind="permission_error",
        )
    return Decision(route, choice, (), evaluation=evaluate)


def _routed(name: ModelName, route: RouteChanged, sticky: str, pinned: int | None, *, evaluation: bool) -> Decision:
    champion = _choice_of_champion(route)
    choice = champion
    canary = route.canary
    if name.alias is None and canary is not None and route.canary_share > 0:
        if share_of(route.policy, sticky) < route.canary_share:
            choice = Choice(canary, "canary", route.canary_share)
        elif route.canary_share < 1:
            choice = champion._replace(propensity=1 - route.canary_share)
    if pinned is not None and pinned != choice.ref.version:
        choice = next((c for c in _servable(route) if c.ref.version == pinned), choice)
    fallbacks: list[Choice] = []
    for other in (
        champion,
        *([Choice(route.previous, "champion")] if route.previous else []),
        Choice(base_of(route), "base"),
    ):
        if other.ref.version not in {choice.ref.version, *(f.ref.version for f in fallbacks)}:
            fallbacks.append(other)
    return Decision(route, choice, tuple(fallbacks), evaluation=evaluation)


def _choice_of_champion(route: RouteChanged) -> Choice:
    return Choice(route.champion, "champion" if route.champion.version else "base")


def _servable(route: RouteChanged) -> list[Choice]:
    """What a user may be answered by: never a candidate."""
    choices = [_choice_of_champion(route)]
    if route.canary is not None:
        choices.append(Choice(route.canary, "canary"))
    if route.previous is not None:
        choices.append(Choice(route.previous, "pinned"))
    choices.append(Choice(base_of(route), "base"))
    return choices


def _named(name: ModelName, route: RouteChanged) -> Choice:
    aliases = {"canary": route.canary, "previous": route.previous, "base": base_of(route)}
    if name.alias is not None:
        ref = aliases[name.alias]
        if ref is None:
            raise Refusal(404, "model_not_found", f"{name.policy} has no {name.alias} at the moment", "model")
        return Choice(ref, "pinned")
    for choice in _servable(route):
        if choice.ref.version == name.version:
            return Choice(choice.ref, "pinned")
    for ref in route.load:
        if ref.version == name.version:
            return Choice(ref, "candidate")
    known = sorted({c.ref.version for c in _servable(route)} | {r.version for r in route.load})
    raise Refusal(
        404,
        "model_not_found",
        f"{name.policy}@v{name.version} is not on the engines; there are {', '.join(f'@v{v}' for v in known)}",
        "model",
    )


def model_names(routes: Iterable[RouteChanged], key: KeyChanged) -> list[tuple[str, RouteChanged]]:
    """The names that this key may use, for `/v1/models`."""
    names: list[tuple[str, RouteChanged]] = []
    for route in sorted((r for r in routes if r.project == key.project), key=lambda r: r.policy):
        names.append((route.policy, route))
        versions = {c.ref.version for c in _servable(route)}
        if "evaluate" in key.scopes:
            versions |= {ref.version for ref in route.load}
        names += [(f"{route.policy}@v{version}", route) for version in sorted(versions)]
    return names
