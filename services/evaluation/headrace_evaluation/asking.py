"""Asking one version for one answer, through the gateway that users ask too."""

import asyncio
import time
from typing import Any, NamedTuple

import httpx2

from headrace_evaluation.core.suite import Case
from headrace_schemas.base import VersionRef

SEED = 20_260_101
"""The same for candidate and champion. At temperature 0 it decides nothing; it is sent so that it never can."""
_CURABLE = (404, 408, 409, 425, 429)
"""With 5xx: not loaded yet, too busy, away. Another try may get an answer."""
_OURS = (401, 403)


class Reply(NamedTuple):
    """What came back."""

    text: str
    tokens: int
    latency_s: float
    """Seconds, at this end."""


class NoAnswerError(Exception):
    """A case without an answer. The words never hold anything of the suite: bodies of errors are not repeated.

    `ours`: nobody's answers are to blame, the gateway cannot be asked at all, so the candidate is not held for it.
    """

    def __init__(self, because: str, *, curable: bool, ours: bool = False) -> None:
        super().__init__(because)
        self.curable = curable
        self.ours = ours


class Asker:
    """A client of the gateway."""

    def __init__(self, client: httpx2.AsyncClient, tries: int) -> None:
        self._client = client
        self._tries = tries

    async def ask(self, policy: str, version: VersionRef, case: Case, max_tokens: int) -> Reply:
        """Raises NoAnswerError after the last try."""
        body = {
            "model": f"{policy}@v{version.version}",
            "messages": case.asked(),
            "temperature": 0,
            "max_tokens": max_tokens,
            "seed": SEED,
            "store": False,
        }
        for attempt in range(1, self._tries + 1):
            try:
                return await self._once(body, version)
            except NoAnswerError as error:
                if not error.curable or attempt == self._tries:
                    raise
            await asyncio.sleep(0.2 * 2**attempt)
        raise AssertionError("unreachable")

    async def _once(self, body: dict[str, Any], version: VersionRef) -> Reply:
        started = time.perf_counter()
        try:
            response = await self._client.post("/v1/chat/completions", json=body)
        except httpx2.TimeoutException:
            raise NoAnswerError("an answer took too long", curable=True) from None
        except httpx2.HTTPError as error:
            raise NoAnswerError(f"the gateway is away: {type(error).__name__}", curable=True, ours=True) from None
        latency = time.perf_counter() - started
        if response.status_code != 200:
            curable = response.status_code in _CURABLE or response.status_code >= 500
            because = f"the gateway answered {response.status_code} {_code(response)}".strip()
            raise NoAnswerError(because, curable=curable, ours=response.status_code in _OURS)
        _check_version(response, version)
        try:
            document = response.json()
            text = document["choices"][0]["message"]["content"] or ""
            return Reply(str(text), int(document["usage"]["completion_tokens"]), latency)
        except (ValueError, KeyError, IndexError, TypeError):
            raise NoAnswerError("the gateway's answer has no text or no usage", curable=True) from None


def _check_version(response: httpx2.Response, version: VersionRef) -> None:
    """The answer is that of the version asked and of no other: headers say the number, the fingerprint the digest."""
    answered = response.headers.get("x-headrace-version", "").removeprefix("v")
    if answered != str(version.version):
        raise NoAnswerError(f"v{version.version} was asked and v{answered or '?'} answered", curable=True)
    if response.headers.get("x-headrace-fallback", "false") not in ("false", "0", ""):
        raise NoAnswerError(f"v{version.version} was asked and a fallback answered", curable=True)
    try:
        print_ = response.json().get("system_fingerprint")
    except (ValueError, AttributeError):
        return
    if version.digest and print_ != version.digest[:12]:
        raise NoAnswerError(f"v{version.version} answered without proof of the registered adapter", curable=True)


def _code(response: httpx2.Response) -> str:
    """The machine's word for the error, if it is one: never the message, which may repeat what was asked."""
    try:
        code = response.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return ""
    return code if isinstance(code, str) and code.replace("_", "").isalnum() and len(code) <= 64 else ""
