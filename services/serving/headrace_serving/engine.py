"""One engine (a vLLM process) over HTTP, as the agent sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from headrace_kit.errors import Retryable
from headrace_serving.core.probes import Prompt


class EngineRefused(Exception):
    """The engine answered, and said no."""


@dataclass(frozen=True)
class EngineState:
    """What `/v1/models` says."""

    base_model: str
    max_model_len: int | None
    adapters: frozenset[str]


class Engine:
    """Raises Retryable where the engine cannot be reached, EngineRefused where it answers with an error."""

    def __init__(self, url: str, session: Callable[[], aiohttp.ClientSession], timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._make = session
        self._session: aiohttp.ClientSession | None = None
        self._timeout_s = timeout_s

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = 5.0) -> Any:
        if self._session is None:
            self._session = self._make()
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=2.0)
        try:
            async with self._session.request(method, self.url + path, json=body, timeout=timeout) as response:
                if response.status != 200:
                    raise EngineRefused(f"the engine answered {response.status}: {(await response.text())[:500]}")
                if "json" in response.headers.get("content-type", ""):
                    return await response.json()
                return await response.text()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Retryable(f"the engine at {self.url} does not answer: {error!r}") from error

    async def state(self) -> EngineState:
        answer = await self._call("GET", "/v1/models")
        try:
            base = next(card for card in answer["data"] if not card.get("parent"))
            adapters = frozenset(card["id"] for card in answer["data"] if card.get("parent"))
            return EngineState(base["id"], base.get("max_model_len"), adapters)
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            raise EngineRefused(f"the engine's list of models is not one: {error!r}") from error

    async def version(self) -> str:
        return str((await self._call("GET", "/version")).get("version", ""))

    async def load(self, name: str, folder: Path) -> None:
        """Always an absolute path: vLLM takes a relative one that is not there for a model hub's id."""
        body = {"lora_name": name, "lora_path": str(folder.absolute())}
        await self._call("POST", "/v1/load_lora_adapter", body, self._timeout_s)

    async def unload(self, name: str) -> None:
        await self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name}, self._timeout_s)

    async def prompt_logprobs(self, model: str, prompts: Sequence[Prompt]) -> list[list[float]]:
        """Per prompt the logprob (nats) of each of its tokens after the first."""
        return [await self._prompt_logprobs(model, prompt) for prompt in prompts]

    async def _prompt_logprobs(self, model: str, prompt: Prompt) -> list[float]:
        choice = await self._complete(model, prompt, {"prompt_logprobs": 0, "return_token_ids": True})
        try:
            ids, entries = choice["prompt_token_ids"], choice["prompt_logprobs"]
            return [float(entry[str(token)]["logprob"]) for token, entry in zip(ids[1:], entries[1:], strict=True)]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineRefused(f"the engine gives no logprobs for a prompt: {error!r}") from error

    async def next_logprob(self, model: str, prompt: Prompt) -> float:
        """The logprob (nats) of the token that follows the prompt."""
        choice = await self._complete(model, prompt, {"logprobs": 0})
        try:
            return float(choice["logprobs"]["token_logprobs"][0])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EngineRefused(f"the engine gives no logprob for a token: {error!r}") from error

    async def _complete(self, model: str, prompt: Prompt, more: dict[str, Any]) -> Any:
        body = {
            "model": model,
            "prompt": prompt.text,
            "truncate_prompt_tokens": prompt.tokens,
            "max_tokens": 1,
            "temperature": 0.0,
            **more,
        }
        answer = await self._call("POST", "/v1/completions", body, self._timeout_s)
        try:
            return answer["choices"][0]
        except (KeyError, IndexError, TypeError) as error:
            raise EngineRefused(f"the engine's completion is not one: {error!r}") from error
