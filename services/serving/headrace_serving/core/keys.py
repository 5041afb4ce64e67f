"""Who asks, and what they may do: API keys against what the registry published."""

from collections.abc import Callable

from headrace_schemas import KeyChanged
from headrace_schemas.keys import parse_key, proves
from headrace_serving.core.refusal import Refusal


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, "invalid_api_key", message, kind="authentication_error")


def check_key(authorization: str | None, find: Callable[[str], KeyChanged | None]) -> KeyChanged:
    """The key behind an Authorization header. Raises a 401 Refusal; which part was wrong is not said."""
    if not authorization:
        raise _unauthorized("send your API key: Authorization: Bearer hr_…")
    scheme, _, text = authorization.partition(" ")
    given = parse_key(text.strip()) if scheme.lower() == "bearer" else None
    if given is None:
        raise _unauthorized("this is not a Headrace API key: it looks like hr_<prefix>_<secret>")
    key = find(given.prefix)
    if key is None or not proves(given.secret, key.salt, key.hash) or key.revoked:
        raise _unauthorized("the API key is unknown or revoked: make one with `headrace keys create`")
    return key


def need_scope(key: KeyChanged, *scopes: str) -> None:
    """Raises a 403 Refusal unless the key has one of `scopes`."""
    if not any(scope in key.scopes for scope in scopes):
        raise Refusal(
            403,
            "missing_scope",
            f"the API key {key.prefix} may {', '.join(sorted(key.scopes)) or 'do nothing'}; this needs {scopes[0]}",
            kind="permission_error",
        )
