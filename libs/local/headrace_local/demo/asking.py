"""Users at work, through the official `openai` client and Headrace's SDK, as any app would."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import openai
from openai.types.chat import ChatCompletion

from headrace import AsyncHeadrace
from headrace_local.demo.errors import DemoError
from headrace_local.demo.facts import Measurement
from headrace_local.demo.options import POLICY, DemoOptions
from headrace_local.demo.users import Habits, Reaction, mood, order, react
from headrace_local.demo.world import Question, World
from headrace_local.state import StackState

FLUSH_S = 60.0
TOO_MANY_FAILURES = 40
"""In a row: then the app is down, not unlucky."""
REQUESTS = 20_000
"""More than any demo asks."""
Silence = Reaction("silence", liked=False)


@dataclass
class Round:
    """What one round of users did."""

    requests: int = 0
    events: int = 0
    liked: int = 0
    reactions: Counter[str] = field(default_factory=Counter)


class Assistant:
    """The shop's app. Use as an async context manager."""

    def __init__(self, state: StackState, world: World, options: DemoOptions, habits: Habits) -> None:
        self._client = openai.AsyncOpenAI(base_url=f"{state.gateway_url}/v1", api_key=state.api_key, max_retries=5)
        self._feedback = AsyncHeadrace(state.gateway_url, state.api_key)
        self._world = world
        self._options = options
        self._habits = habits
        self._order = order(options.seed, len(world.users), REQUESTS)
        self._asked = 0
        self._failed_in_a_row = 0
        self.failed = 0
        """Requests that the client gave up on."""
        self.requests = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._feedback.close()
        await self._client.close()

    async def round(self, on_answer: Callable[[Round], None]) -> Round:
        """Users ask until so many of them said something; returns once the gateway has taken all of it.

        Raises DemoError where feedback was lost or the app is down.
        """
        done = Round()
        wanted = self._options.per_round

        async def keep_asking() -> None:
            while done.events < wanted:
                number = self._asked
                self._asked += 1
                question = self._world.users[self._order[number]]
                answer = await self._ask(question, number)
                if answer is None:
                    continue
                reaction = react(
                    question, text_of(answer), self._world.style, mood(self._options.seed, number, self._habits)
                )
                done.requests += 1
                done.liked += reaction.liked
                if done.events >= wanted:
                    reaction = Silence
                done.events += reaction.kind != "silence"
                self._tell(answer, reaction, number)
                done.reactions[_name(reaction)] += 1
                on_answer(done)

        await asyncio.gather(*(keep_asking() for _ in range(self._options.in_flight)))
        await self.delivered()
        return done

    async def delivered(self) -> None:
        """Raises DemoError unless all feedback is durable."""
        flushed = await self._feedback.flush(FLUSH_S)
        stats = self._feedback.stats
        if not flushed or stats.dropped or stats.refused:
            raise DemoError(
                f"Feedback was lost ({stats.dropped} dropped, {stats.refused} refused): the gateway's log says why."
            )

    async def measure(self, events: int, on_answer: Callable[[int], None]) -> Measurement:
        """Every held-out question, greedily, kept out of training."""
        began = time.monotonic()
        count = 0
        gate = asyncio.Semaphore(self._options.in_flight)

        async def ask(question: Question) -> ChatCompletion:
            nonlocal count
            async with gate:
                answer = await self._answer(question.text, temperature=0, train=False)
            count += 1
            on_answer(count)
            return answer

        try:
            answers = await asyncio.gather(*(ask(question) for question in self._world.held_out))
        except openai.OpenAIError as error:
            raise DemoError(f"A held-out question was not answered ({error}): the gateway's log says why.") from error
        versions = {version_of(answer) for answer in answers}
        if len(versions) != 1:
            raise DemoError(f"Held-out questions were answered by several versions: {sorted(versions)}.")
        texts = tuple(text_of(answer) for answer in answers)
        likes = self._world.style.likes
        return Measurement(
            events=events,
            version=versions.pop(),
            answers=texts,
            liked=tuple(likes(q, text) for q, text in zip(self._world.held_out, texts, strict=True)),
            prompt_tokens=sum(a.usage.prompt_tokens for a in answers if a.usage),
            completion_tokens=sum(a.usage.completion_tokens for a in answers if a.usage),
            seconds=time.monotonic() - began,
        )

    async def greedy(self, question: str, max_tokens: int | None = None) -> tuple[int, str]:
        """(version, answer) of one question, kept out of training."""
        answer = await self._answer(question, temperature=0, train=False, max_tokens=max_tokens)
        return version_of(answer), text_of(answer)

    async def _ask(self, question: Question, number: int) -> ChatCompletion | None:
        try:
            answer = await self._answer(question.text, temperature=1.0, seed=self._options.seed * 1_000_003 + number)
        except openai.OpenAIError as error:
            self.failed += 1
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= TOO_MANY_FAILURES:
                raise DemoError(f"{TOO_MANY_FAILURES} requests failed in a row, the last with: {error}") from error
            return None
        self._failed_in_a_row = 0
        return answer

    async def _answer(
        self,
        text: str,
        temperature: float,
        *,
        seed: int | None = None,
        train: bool = True,
        max_tokens: int | None = None,
    ) -> ChatCompletion:
        self.requests += 1
        return await self._client.chat.completions.create(
            model=POLICY,
            messages=[{"role": "user", "content": text}],
            temperature=temperature,
            top_p=1.0,
            max_tokens=max_tokens or self._options.max_tokens,
            seed=seed if seed is not None else openai.omit,
            extra_body={} if train else {"headrace": {"train": False}},
        )

    def _tell(self, answer: ChatCompletion, reaction: Reaction, number: int) -> None:
        user = f"user-{self._order[number]}"
        if reaction.correction is not None:
            self._feedback.corrected(answer, reaction.correction, source=user)
        elif reaction.thumb is not None:
            (self._feedback.accepted if reaction.thumb else self._feedback.rejected)(answer, source=user)


def text_of(answer: ChatCompletion) -> str:
    return answer.choices[0].message.content or ""


def version_of(answer: ChatCompletion) -> int:
    """From the model's name in the answer, `support@v3`. Raises DemoError for another name."""
    match = re.fullmatch(r".+@v(\d+)", answer.model)
    if match is None:
        raise DemoError(f"The gateway says that {answer.model!r} answered, and no version: is this Headrace's gateway?")
    return int(match[1])


def _name(reaction: Reaction) -> str:
    if reaction.kind == "thumb" and reaction.thumb != reaction.liked:
        return "mistaken thumb"
    return reaction.kind
