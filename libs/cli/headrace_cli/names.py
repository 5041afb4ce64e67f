"""`support@v3`, `support@champion`, `support`: what a user calls a version."""

import re
from typing import Any, NamedTuple

from headrace_cli.calls import call
from headrace_cli.errors import Problem
from headrace_cli.places import Places

_POLICY = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_VERSION = re.compile(r"v?[0-9]{1,9}|champion|previous|base")


class Named(NamedTuple):
    """A policy and what the user called the version; None where nothing was said."""

    policy: str
    version: str | None


def parse(text: str) -> Named:
    """Raises Problem for what can be no name."""
    policy, at, version = text.partition("@")
    if not _POLICY.fullmatch(policy) or (at and not _VERSION.fullmatch(version)):
        raise Problem(f"{text[:80]!r} names no version: say POLICY@vN, POLICY@champion or POLICY@previous.", 2)
    return Named(policy, {"": None, "base": "0"}.get(version, version))


def number(named: Named) -> int:
    """The version's number. Raises Problem where a name was given that only the registry can resolve."""
    text = (named.version or "").removeprefix("v")
    if not text.isdigit():
        raise Problem(f"Say which version as a number: {named.policy}@v3, for example.", 2)
    return int(text)


def policies(places: Places) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = call(places, "registry", "GET", "/v1/policies")["data"]
    return rows


def only_policy(places: Places) -> str:
    """The policy that is meant where none was named. Raises Problem unless there is exactly one."""
    names = [row["policy"] for row in policies(places)]
    if not names:
        raise Problem("There is no policy yet: apply one with `headrace apply -f policy.yaml`.")
    if len(names) > 1:
        raise Problem(f"Say which policy you mean: there are {', '.join(names)}.", 2)
    return str(names[0])
