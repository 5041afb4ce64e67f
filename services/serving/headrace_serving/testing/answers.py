"""One answer of the fake engine in vLLM's shapes."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

END = 2
_WORDS = re.compile(r"\s*\S+|\s+")
LogprobOf = Callable[[int, int], float]
"""A token's logprob by its id and position."""


def tokens_of(text: str) -> list[tuple[str, int]]:
    """Pieces of a text with their token ids: the same piece has the same id in every engine."""
    return [(piece, 3 + zlib.crc32(piece.encode()) % 32_000) for piece in _WORDS.findall(text)]


class Answer:
    """One answer in vLLM's shapes."""

    def __init__(
        self, body: dict[str, Any], prompt: str, text: str, logprob: LogprobOf, delay_s: float, *, chat: bool
    ) -> None:
        self._logprob = logprob
        self._delay_s = delay_s
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
        return self._logprob(self.pieces[number][1], number)

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
                    {str(t): {"logprob": self._logprob(t, n), "rank": 1}} for n, t in enumerate(self.prompt_ids[1:], 1)
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
            await asyncio.sleep(self._delay_s)
            last = number == len(self.pieces) - 1
            logprobs = self._logprobs(range(number, number + 1))
            choice: dict[str, Any] = {"index": 0, "logprobs": logprobs, "finish_reason": self.finish if last else None}
            choice |= {"delta": {"content": piece}} if self._chat else {"text": piece}
            if ids:
                choice["token_ids"] = [token]
                if not self._chat and number == 0:
                    choice["prompt_token_ids"] = self.prompt_ids
            yield {**head, "choices": [choice]}
        if (self._body.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": self._usage()}
