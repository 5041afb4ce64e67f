"""Suites at rest: sealed with AES-256-GCM, bound to their name and digest. Plain text exists in memory only."""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headrace_evaluation.core.suite import Suite

_NONCE = 12


class SealBrokenError(Exception):
    """The key is another one, or the sealed bytes are not what was sealed."""


class Vault:
    """Seals and opens. One key for all suites; a fresh nonce each time."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, name: str, suite: Suite) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        plain = suite.model_dump_json().encode()
        return nonce + self._cipher.encrypt(nonce, plain, _bound(name, suite.digest()))

    def open(self, name: str, digest: str, sealed: bytes) -> Suite:
        """Raises SealBrokenError."""
        try:
            plain = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(name, digest))
        except InvalidTag:
            raise SealBrokenError(f"the suite {name} cannot be opened with this EVALUATION_KEY") from None
        return Suite.model_validate_json(plain)


def _bound(name: str, digest: str) -> bytes:
    return f"{name}\n{digest}".encode()
