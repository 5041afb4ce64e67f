"""The commands that the demo gives as a company would: apply the policy, push the suite, follow versions, roll back."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Self

import httpx2

from headrace_local.demo.errors import DemoError
from headrace_local.state import StackState

PATIENCE_S = 60.0
"""So long a service may be away: the supervisor starts it again."""
BY = "demo"

Json = dict[str, Any]


class Control:
    """HTTP to registry, evaluation and training, with the admin token. Use as an async context manager."""

    def __init__(self, state: StackState, policy: str) -> None:
        self._registry = state.registry_url
        self._evaluation = state.evaluation_url
        self._training = state.url("training")
        self._gateway = state.gateway_url
        self._policy = policy
        headers = {"authorization": f"Bearer {state.admin_token}", "x-headrace-by": BY}
        self._http = httpx2.AsyncClient(headers=headers, timeout=30)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def apply(self, spec: Mapping[str, Any]) -> Json:
        return await self._call("PUT", f"{self._registry}/v1/policies/{self._policy}", spec)

    async def push_suite(self, name: str, cases: list[Json], max_tokens: int) -> Json:
        return await self._call(
            "PUT", f"{self._evaluation}/v1/suites/{name}", {"cases": cases, "max_tokens": max_tokens}
        )

    async def route(self) -> Json:
        return await self._call("GET", f"{self._registry}/v1/policies/{self._policy}/route")

    async def versions(self) -> list[Json]:
        """Newest first."""
        found = await self._call("GET", f"{self._registry}/v1/policies/{self._policy}/versions")
        return list(found["data"])

    async def explain(self, version: int) -> Json:
        return await self._call("GET", f"{self._registry}/v1/versions/{self._policy}/{version}")

    async def runs(self) -> tuple[list[Json], str]:
        """Training runs of the policy, newest first, and what the next one waits for."""
        found = await self._call("GET", f"{self._training}/v1/runs?policy={self._policy}")
        return list(found["runs"]), next((p["because"] for p in found["policies"]), "it does not know the policy yet")

    async def roll_back(self, reason: str) -> Json:
        body = {"by": BY, "reason": reason}
        return await self._call("POST", f"{self._registry}/v1/policies/{self._policy}/rollback", body)

    async def promote(self, version: int, reason: str) -> Json:
        body = {"version": version, "by": BY, "reason": reason, "force": True}
        return await self._call("POST", f"{self._registry}/v1/policies/{self._policy}/promote", body)

    async def gateway_ready(self) -> None:
        """Returns once the gateway knows a policy and a key. Raises DemoError after a minute."""
        await self._call("GET", f"{self._gateway}/health/ready")

    async def _call(self, method: str, url: str, body: Any = None) -> Json:
        """One call, tried again while the service is away. Raises DemoError with what the service says."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                response = await self._http.request(method, url, json=body)
            except httpx2.TransportError as error:
                problem = f"{method} {url} is not answered ({error!r})"
            else:
                if response.status_code < 400:
                    return dict(response.json())
                problem = f"{method} {url} answers {response.status_code}: {_said(response)}"
                if response.status_code < 500 and response.status_code != 429:
                    raise DemoError(f"{problem}.")
            if time.monotonic() > deadline:
                raise DemoError(f"{problem}; the service's log in .headrace/logs says why.")
            await asyncio.sleep(0.5)


def _said(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
