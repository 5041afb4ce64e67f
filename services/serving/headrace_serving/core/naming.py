"""Model names that apps send: a policy, or a policy pinned to a version or to an alias."""

import re
from typing import NamedTuple

from headrace_serving.core.refusal import Refusal

ALIASES = ("champion", "canary", "previous", "base")
_NAME = re.compile(r"^(?P<policy>[a-z0-9][a-z0-9._-]{0,62})(?:@(?:v(?P<version>[0-9]{1,9})|(?P<alias>[a-z]+)))?$")


class ModelName(NamedTuple):
    """`support`, `support@v7` or `support@canary`."""

    policy: str
    version: int | None = None
    alias: str | None = None


def parse_model(text: object) -> ModelName:
    """Raises a Refusal for what cannot be a model's name."""
    if not isinstance(text, str) or not text:
        raise Refusal(400, "missing_model", "name a policy in `model`, e.g. support or support@v7", "model")
    match = _NAME.match(text)
    if match is None:
        raise Refusal(404, "model_not_found", f"{text[:100]!r} is not a policy's name: name one, or one@v7", "model")
    alias = match["alias"]
    if alias is not None and alias not in ALIASES:
        raise Refusal(
            404, "model_not_found", f"@{alias[:40]} is no alias: there are @v7, @{', @'.join(ALIASES)}", "model"
        )
    return ModelName(match["policy"], int(match["version"]) if match["version"] else None, alias)
