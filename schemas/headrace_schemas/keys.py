"""API keys: `hr_<prefix>_<secret>`. The registry makes them, gateways check them; both by this file.

The prefix (8 of a-z0-9) finds the key, the secret proves it. The secret has 256 bits of randomness, so one salted
sha256 is enough and costs a microsecond on the request path.
"""

import hashlib
import hmac
import re
from typing import NamedTuple

_KEY = re.compile(r"^hr_([a-z0-9]{8})_([A-Za-z0-9_-]{20,200})$")


class ApiKey(NamedTuple):
    """An API key taken apart."""

    prefix: str
    secret: str

    def text(self) -> str:
        return f"hr_{self.prefix}_{self.secret}"


def parse_key(text: str) -> ApiKey | None:
    """The parts of an API key; None where it is not one."""
    match = _KEY.match(text)
    return ApiKey(match[1], match[2]) if match else None


def hash_secret(salt: str, secret: str) -> str:
    """sha256 in hex over the salt's bytes (given in hex) and then the secret's."""
    return hashlib.sha256(bytes.fromhex(salt) + secret.encode()).hexdigest()


def proves(secret: str, salt: str, expected: str) -> bool:
    """Whether `secret` is the one behind `expected`, in constant time."""
    return hmac.compare_digest(hash_secret(salt, secret), expected)
