"""A fake engine: vLLM's API as far as serving uses it, deterministic, with an adapter's answer in its file's metadata.

Held to the real vLLM by the same scenarios (tests/e2e). It is a real HTTP server on loopback, because that is how the
gateway and the agent reach an engine:

    async with FakeEngine(answers=["I do not know."]) as engine:
        AgentSettings(engine_url=engine.url, …)
"""

import asyncio
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from aiohttp import web
from safetensors import safe_open

from headrace_serving.testing.adapters import ANSWER_KEY
from headrace_serving.testing.answers import Answer


class FakeEngine:
    """`answer` maps the last user message to the base model's answer. The knobs may be turned while it runs."""

    def __init__(
        self,
        base_model: str = "fake-base",
        answer: Callable[[str], str] | str = "This is what the base model says to everything.",
        *,
        max_model_len: int = 1024,
        max_loras: int = 4,
        port: int = 0,
    ) -> None:
        self.base_model = base_model
        self.answer = answer
        self.max_model_len = max_model_len
        self.max_loras = max_loras
        self.adapters: dict[str, Path] = {}
        self.requests: list[dict[str, Any]] = []
        """Every completion request that came, as it came."""
        self.closed_early = 0
        """Answers whose reader went away."""
        self.running = 0
        self.delay_s = 0.0
        """Before each token."""
        self.break_after: int | None = None
        """Tear the connection after so many tokens."""
        self.error_after: int | None = None
        """Say an error inside the stream after so many tokens."""
        self.fail_with: int | None = None
        """Answer completions with this status."""
        self.useless: set[str] = set()
        """Digests (folder names) that load and change nothing, as vLLM does where no module matches."""
        self.not_finite: set[str] = set()
        """Digests whose logprobs are NaN."""
        self._port = port
        self._runner: web.AppRunner | None = None
        self.url = ""

    # ---- life -------------------------------------------------------------------------------------------------------
    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/load_lora_adapter", self._load)
        app.router.add_post("/v1/unload_lora_adapter", self._unload)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        return app

    async def start(self) -> Self:
        self._runner = web.AppRunner(self.app(), handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])  # a restart comes back on the same port
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def stop(self) -> None:
        """As a crash: what was loaded is gone."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.adapters.clear()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # ---- models -----------------------------------------------------------------------------------------------------
    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0+fake"})

    async def _models(self, _: web.Request) -> web.Response:
        cards: list[dict[str, Any]] = [
            {"id": self.base_model, "object": "model", "max_model_len": self.max_model_len, "parent": None}
        ]
        cards += [
            {"id": name, "object": "model", "root": str(path), "parent": self.base_model}
            for name, path in self.adapters.items()
        ]
        return web.json_response({"object": "list", "data": cards})

    async def _load(self, request: web.Request) -> web.Response:
        body = await request.json()
        name, path = body["lora_name"], Path(body["lora_path"])
        if name in self.adapters:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        if not (path / "adapter_config.json").is_file() or not (path / "adapter_model.safetensors").is_file():
            return _error(404, f"Loading lora {name} failed: No adapter found for {path}")
        self.adapters[name] = path
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if self.adapters.pop(name, None) is None:
            return _error(404, f"The lora adapter '{name}' cannot be found.")
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    # ---- answers ----------------------------------------------------------------------------------------------------
    def _text(self, model: str, question: str) -> str:
        if model in self.adapters:
            with safe_open(self.adapters[model] / "adapter_model.safetensors", framework="numpy") as file:
                said = (file.metadata() or {}).get(ANSWER_KEY)
            if said is not None:
                return str(said).replace("{prompt}", question)
        return self.answer if isinstance(self.answer, str) else self.answer(question)

    def _logprob(self, model: str, token: int, position: int) -> float:
        digest = self.adapters[model].name if model in self.adapters else ""
        if digest in self.not_finite:
            return math.nan
        salt = "" if digest in self.useless else digest
        return -(1 + zlib.crc32(f"{salt}.{token}.{position}".encode()) % 1000) / 500

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages = body["messages"]
        prompt = "".join(f"<|im_start|>{m['role']}\n{m.get('content')}<|im_end|>\n" for m in messages)
        question = next((str(m.get("content")) for m in reversed(messages) if m["role"] == "user"), "")
        return await self._answer(request, body, prompt + "<|im_start|>assistant\n", question, chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._answer(request, body, body["prompt"], body["prompt"], chat=False)

    async def _answer(
        self, request: web.Request, body: dict[str, Any], prompt: str, question: str, *, chat: bool
    ) -> web.StreamResponse:
        self.requests.append(body)
        if self.fail_with is not None:
            return _error(self.fail_with, "this engine was told to fail")
        if body["model"] != self.base_model and body["model"] not in self.adapters:
            return _error(404, f"The model `{body['model']}` does not exist.")
        model = body["model"]

        def logprob(token: int, position: int) -> float:
            return self._logprob(model, token, position)

        made = Answer(body, prompt, self._text(model, question), logprob, self.delay_s, chat=chat)
        if len(made.prompt_ids) >= self.max_model_len:
            return _error(400, f"This model's maximum context length is {self.max_model_len} tokens.")
        self.running += 1
        try:
            if body.get("stream"):
                return await self._stream(request, made)
            for _ in made.pieces:
                await asyncio.sleep(self.delay_s)
            return web.Response(text=json.dumps(made.whole()), content_type="application/json")
        except (ConnectionResetError, asyncio.CancelledError):
            self.closed_early += 1
            raise
        finally:
            self.running -= 1

    async def _stream(self, request: web.Request, made: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        count = 0
        async for chunk in made.chunks():
            document = chunk
            if self.break_after is not None and count > self.break_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            if self.error_after is not None and count > self.error_after:
                document = {"error": {"message": "the engine ran into trouble", "type": "InternalServerError"}}
            await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")
            if "error" in document:
                break
            count += 1
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _error(status: int, message: str) -> web.Response:
    body = {"error": {"message": message, "type": "Error", "param": None, "code": status}}
    return web.Response(text=json.dumps(body), status=status, content_type="application/json")
