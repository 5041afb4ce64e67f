"""Tells the registry of the stack's first API key: ``python -m headrace_local.first_key ROOT REGISTRY_URL``.

The key is made here and kept in the secrets file; the registry takes it under its own text, as often as one
likes. A key that a person has revoked stays so: then another is made.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

from headrace_local import credentials
from headrace_local.options import layout

SCOPES = ("inference", "feedback", "evaluate")


def register(registry_url: str, admin_token: str, api_key: str) -> int:
    """Make the key known; returns the HTTP status: 200, 201, or 409 for one that was revoked."""
    body = json.dumps({"name": "first key of the local stack", "scopes": SCOPES, "secret": api_key}).encode()
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
        if register(registry_url, known.admin_token, known.api_key) == 409:
            register(registry_url, known.admin_token, credentials.replace_api_key(where))
    except OSError as error:
        print(f"the registry did not take the first API key: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
