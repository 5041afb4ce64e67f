"""A fake engine: vLLM's API as far as serving uses it, deterministic, with an adapter's answer in its file's metadata.

Held to the real vLLM by the same scenarios (tests/e2e). It is a real HTTP server on loopback, because that is how the
gateway and the agent reach an engine:

    async with FakeEngine(answers=["I do not know."]) as engine:
        AgentSettings(engine_url=engine.url, …)
"""

import asyncio
import json
import math
import re
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from aiohttp import web
from safetensors import safe_open
from safetensors.numpy import save

from headrace_serving.core.adapter import CONFIG_KEY

ANSWER_KEY = "headrace.fake_answer"
END = 2
_WORDS = re.compile(r"\s*\S+|\s+")


def adapter_file(
    answer: str, *, base_model: str = "fake-base", rank: int = 4, alpha: float = 8.0, seed: int = 0,
    modules: tuple[str, ...] = ("q_proj", "v_proj"), width: int = 8, **config: Any,
) -> bytes:  # fmt: skip
    """A valid adapter file whose engine answers `answer`; `{prompt}` in it stands for the last user message."""
    random = np.random.default_rng(seed)
    tensors = {}
    for module in modules:
        path = f"base_model.model.model.layers.0.self_attn.{module}"
        tensors[f"{path}.lora_A.weight"] = random.normal(size=(rank, width)).astype(np.float32)
        tensors[f"{path}.lora_B.weight"] = random.normal(size=(width, rank)).astype(np.float32)
    said = {
        "base_model_name_or_path": base_model, "bias": "none", "lora_alpha": alpha, "peft_type": "LORA", "r": rank,
        "target_modules": sorted(modules), "task_type": "CAUSAL_LM", **config,
    }  # fmt: skip
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return _ordered(save(tensors, metadata={CONFIG_KEY: canonical, ANSWER_KEY: answer}))


def _ordered(file: bytes) -> bytes:
    """The same file with its header's keys in order: safetensors writes metadata in any order, and digests differ."""
    length = int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + file[8 + length :]


def tokens_of(text: str) -> list[tuple[str, int]]:
    """Pieces of a text with their token ids: the same piece has the same id in every engine."""
    return [(piece, 3 + zlib.crc32(piece.encode()) % 32_000) for piece in _WORDS.findall(text)]


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
        made = _Answer(self, body, prompt, self._text(body["model"], question), chat=chat)
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

    async def _stream(self, request: web.Request, made: "_Answer") -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        count = 0
        async for document in made.chunks():
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


class _Answer:
    """One answer in vLLM's shapes."""

    def __init__(self, engine: FakeEngine, body: dict[str, Any], prompt: str, text: str, *, chat: bool) -> None:
        self._engine = engine
        self._body = body
        self._chat = chat
        self.prompt_ids = [token for _, token in tokens_of(prompt)]
        if limit := body.get("truncate_prompt_tokens"):
            self.prompt_ids = self.prompt_ids[-limit:]
        most = body.get("max_completion_tokens") or body.get("max_tokens") or (None if chat else 16)
        pieces = [*tokens_of(text), ("", END)]
        self.finish = "stop" if most is None or len(pieces) <= most else "length"
        self.pieces = pieces if most is None else pieces[:most]

    def _lp(self, number: int) -> float:
        return self._engine._logprob(self._body["model"], self.pieces[number][1], number)  # noqa: SLF001

    def _logprobs(self, numbers: range) -> dict[str, Any] | None:
        asked = self._body.get("logprobs")
        if asked is None or asked is False:
            return None
        if self._chat:
            return {
                "content": [
                    {"token": self.pieces[n][0], "logprob": self._lp(n), "bytes": list(self.pieces[n][0].encode()),
                     "top_logprobs": []}
                    for n in numbers
                ]
            }  # fmt: skip
        return {
            "tokens": [self.pieces[n][0] for n in numbers], "token_logprobs": [self._lp(n) for n in numbers],
            "top_logprobs": [{} for _ in numbers], "text_offset": [0 for _ in numbers],
        }  # fmt: skip

    def _head(self, object_: str) -> dict[str, Any]:
        return {"id": "chatcmpl-engine", "object": object_, "created": 1, "model": self._body["model"]}

    def _usage(self) -> dict[str, int]:
        prompt, answer = len(self.prompt_ids), len(self.pieces)
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}

    def whole(self) -> dict[str, Any]:
        text = "".join(piece for piece, _ in self.pieces)
        ids = bool(self._body.get("return_token_ids"))
        choice: dict[str, Any] = {
            "index": 0, "logprobs": self._logprobs(range(len(self.pieces))), "finish_reason": self.finish,
            "stop_reason": None, "token_ids": [t for _, t in self.pieces] if ids else None,
        }  # fmt: skip
        if self._chat:
            document = self._head("chat.completion")
            choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
            document["prompt_token_ids"] = self.prompt_ids if ids else None
        else:
            document = self._head("text_completion")
            choice |= {"text": text, "prompt_token_ids": self.prompt_ids if ids else None}
            if self._body.get("prompt_logprobs") is not None:
                choice["prompt_logprobs"] = [None] + [
                    {str(t): {"logprob": self._engine._logprob(self._body["model"], t, n), "rank": 1}}  # noqa: SLF001
                    for n, t in enumerate(self.prompt_ids[1:], 1)
                ]
        return {**document, "choices": [choice], "usage": self._usage()}

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        head = self._head("chat.completion.chunk" if self._chat else "text_completion")
        ids = bool(self._body.get("return_token_ids"))
        if self._chat:
            first = {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None,
                                          "finish_reason": None}]}  # fmt: skip
            yield {**first, "prompt_token_ids": self.prompt_ids} if ids else first
        for number, (piece, token) in enumerate(self.pieces):
            await asyncio.sleep(self._engine.delay_s)
            choice: dict[str, Any] = {"index": 0, "logprobs": self._logprobs(range(number, number + 1)),
                                      "finish_reason": self.finish if number == len(self.pieces) - 1 else None}  # fmt: skip
            choice |= {"delta": {"content": piece}} if self._chat else {"text": piece}
            if ids:
                choice["token_ids"] = [token]
                if not self._chat and number == 0:
                    choice["prompt_token_ids"] = self.prompt_ids
            yield {**head, "choices": [choice]}
        if (self._body.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": self._usage()}


def _error(status: int, message: str) -> web.Response:
    body = {"error": {"message": message, "type": "Error", "param": None, "code": status}}
    return web.Response(text=json.dumps(body), status=status, content_type="application/json")
