"""Tells the registry of the stack's API keys: ``python -m headrace_local.first_key ROOT REGISTRY_URL``.

The keys (the user's first one, and evaluation's) are made here and kept in the secrets file; the registry takes
each under its own text, as often as one likes. The first key that a person has revoked stays so: then another is
made.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

from headrace_local import credentials
from headrace_local.options import layout

FIRST = ("first key of the local stack", ("inference", "feedback", "evaluate"))
EVALUATION = ("evaluation of the local stack", ("evaluate",))


def register(registry_url: str, admin_token: str, api_key: str, what: tuple[str, tuple[str, ...]] = FIRST) -> int:
    """Make the key known under a name and scopes; returns the HTTP status: 200, 201, or 409 for a revoked one."""
    body = json.dumps({"name": what[0], "scopes": what[1], "secret": api_key}).encode()
    headers = {"Authorization": f"Bearer {admin_token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{registry_url}/v1/keys", body, headers)  # noqa: S310 - an address of ours
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        return 409


def main() -> int:
    where = layout(Path(sys.argv[1]))
    registry_url = sys.argv[2]
    known = credentials.load_or_make(where)
    try:
        if register(registry_url, known.admin_token, known.api_key, FIRST) == 409:
            register(registry_url, known.admin_token, credentials.replace_api_key(where), FIRST)
        if register(registry_url, known.admin_token, known.evaluation_api_key, EVALUATION) == 409:
            print(
                "evaluation's API key was revoked: no version will be judged until .headrace/secrets.json has another"
            )
    except OSError as error:
        print(f"the registry did not take an API key: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
