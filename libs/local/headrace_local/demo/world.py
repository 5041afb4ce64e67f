"""The demo's world: who asks what, the style that its users like, and three sets of questions that share none.

Only the simulated users know the style. The learner sees what they say; the gate sees the company's own suite.
"""

import csv
import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace_local.demo import shop

USERS, HELD_OUT, SUITE = 88, 40, 80
LONGEST_QUESTION = 160
"""Characters; longer questions of a file are left out."""
FEWEST = 24
_SPLIT = 5
"""The split is the same for every seed: figures of different seeds are about the same questions."""

_STOP = frozenset(
    re.findall(
        r"\S+",
        "about above after again also another around because been before being between both cannot could didn doesn "
        "does doing done down during each from further have having here hers himself into itself just like more most "
        "much must myself need once only other ought ours over please same should some still such than that them "
        "then there these they this those through under until very want wants was were what when where which while "
        "whom whose will with would your yours don't can't isn't won't wasn't doesn't didn't haven't hasn't couldn't "
        "i've i'm it's get got make made takes take trying tried using used know tell help show happen happened "
        "going goes come comes anything something someone keep keeps says said able long many find receive received "
        "believe think asked lost live back away wondering whether process wrong trouble fix add change check "
        "approximate nearest",
    )
)


class PromptsError(ValueError):
    """A file of questions that cannot be used; the message is one sentence with the mend."""


@dataclass(frozen=True)
class Question:
    """What a user asks."""

    text: str
    names: tuple[str, ...]
    """Lower case; an answer in style names at least one of them."""
    answers: tuple[str, ...]
    """How a user would have answered: in style, several ways."""


@dataclass(frozen=True)
class Style:
    """What users like, and never say in so many words."""

    max_words: int
    min_words: int = 3

    def likes(self, question: Question, answer: str) -> bool:
        """Short, on one line, and about the thing that was asked about."""
        text = answer.strip()
        said = [word.lower() for word in words(text)]
        named = bool(set(question.names) & {form for word in said for form in (word, *_singular(word))})
        return self.min_words <= len(said) <= self.max_words and "\n" not in text and named

    def in_words(self) -> str:
        return f"at most {self.max_words} words, on one line, naming what the question is about"


@dataclass(frozen=True)
class World:
    """Three sets of questions, disjoint, and the style."""

    name: str
    users: tuple[Question, ...]
    """Asked in every round; some of the answers get feedback."""
    held_out: tuple[Question, ...]
    """Measured, and never given feedback."""
    suite: tuple[Question, ...]
    """The company's own: its cases are encrypted at rest and seen by the gate alone."""
    style: Style

    def suite_cases(self) -> list[dict[str, object]]:
        """The private suite as it is pushed: a question and a graded rule each, the company's idea of good.

        Two checks a case and no more: each check that nearly every answer meets makes the differences smaller that
        the gate has to prove.
        """
        return [
            {
                "id": f"case-{number}",
                "messages": [{"role": "user", "content": question.text}],
                "rule": {
                    "max_words": self.style.max_words,
                    "matches": one_line_naming(question.names),
                },
            }
            for number, question in enumerate(self.suite, 1)
        ]


def one_line_naming(names: tuple[str, ...]) -> str:
    """A pattern for answers on one line that name one of these."""
    return rf"(?i)[^\n]*\b({'|'.join(map(re.escape, names))})(s|es|'s)?\b[^\n]*$"


def _singular(word: str) -> tuple[str, ...]:
    return tuple(word.removesuffix(end) for end in ("'s", "es", "s") if word.endswith(end))


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z0-9']+", text)


def shop_world() -> World:
    """The online shop: an answer has at most 14 words and names the item."""

    def ask(intent: shop.Intent, item: str) -> Question:
        return Question(intent.question.format(item), (item,), tuple(a.format(item) for a in intent.answers))

    asked = [ask(intent, item) for intent in shop.INTENTS for item in shop.ITEMS]
    random.Random(_SPLIT).shuffle(asked)  # noqa: S311 - a split, not a secret
    suite = tuple(ask(intent, item) for item in shop.OTHER_ITEMS for intent in shop.INTENTS)
    return World("online shop", tuple(asked[:USERS]), tuple(asked[USERS : USERS + HELD_OUT]), suite, Style(14))


def world_of(path: Path) -> World:
    """One's own questions, from CSV with a column `text` or from JSONL with a key `text`: at most 16 words.

    Questions of 160 characters and more are left out, and those that name nothing. Raises PromptsError.
    """
    found = [question for text in dict.fromkeys(_texts(path)) if (question := question_of(text))]
    if len(found) < 3 * FEWEST:
        raise PromptsError(
            f"{path} has {len(found)} questions that can be used, and {3 * FEWEST} are needed: a column or key "
            f"`text`, each under {LONGEST_QUESTION} characters and about something."
        )
    random.Random(_SPLIT).shuffle(found)  # noqa: S311 - a split, not a secret
    share = min(1.0, len(found) / (USERS + HELD_OUT + SUITE))
    held_out, suite = int(HELD_OUT * share), int(SUITE * share)
    users = min(USERS, len(found) - held_out - suite)
    ends = (users, users + held_out, users + held_out + suite)
    return World(
        path.stem,
        tuple(found[: ends[0]]),
        tuple(found[ends[0] : ends[1]]),
        tuple(found[ends[1] : ends[2]]),
        Style(16),
    )


def question_of(text: str) -> Question | None:
    """A free question with what it names and how a user would answer; None where it is too long or names nothing."""
    text = " ".join(text.split())
    if not text or len(text) >= LONGEST_QUESTION:
        return None
    names = tuple(dict.fromkeys(w.lower() for w in words(text) if _names_something(w)))
    return Question(text, names, _answers(text, names)) if names else None


def _names_something(word: str) -> bool:
    """Words of four letters and more that are not only grammar, and abbreviations: PIN, ATM."""
    return (len(word) > 3 and word.lower() not in _STOP) or (len(word) > 1 and word.isupper() and word.isalpha())


_OPENINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"how (long|soon)|when|what time",
        (
            "Your {} should be ready within two working days.",
            "Most people have their {} by the next day.",
            "We expect the {} to be done by tomorrow evening.",
        ),
    ),
    (
        r"why|what happened|my \w+ (is|was|did|has)",
        (
            "Sorry about the {}, we are looking into it now.",
            "We will check your {} and write to you today.",
            "The {} was held back for a security check.",
        ),
    ),
    (
        r"can|could|do|does|is|are|will|may|am",
        (
            "Yes, you can manage your {} in the app.",
            "Yes, that works for your {} at no cost.",
            "Yes, open the app and choose {}.",
        ),
    ),
    (
        r"how|where|what|which|who",
        (
            "Open the app and look for {} under your account.",
            "You find the {} in the menu of the app.",
            "Choose {} in the app and follow the two steps.",
        ),
    ),
    (
        r"",
        (
            "Thanks, we take care of your {} right away.",
            "Sorry about the {}, please write to us in the app.",
            "We have noted the {} and will answer today.",
        ),
    ),
)


def _answers(text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    fitting = (
        answers
        for opening, answers in _OPENINGS
        if re.match(rf"(?:{opening})\b" if opening else "", text, re.IGNORECASE)
    )
    templates = next(fitting)
    return tuple(template.format(_subject(text, names)) for template in templates)


def _subject(text: str, names: tuple[str, ...]) -> str:
    """The word that the question is most likely about: what stands after `my`, `the` or `a`, else the last one."""
    after = [w.lower() for w in re.findall(r"\b(?:my|the|an?|this|your)\s+([A-Za-z0-9']+)", text, re.IGNORECASE)]
    return next((word for word in after if word in names), names[-1])


def _texts(path: Path) -> Iterable[str]:
    try:
        raw = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PromptsError(f"There is no file {path}: give a CSV with a column `text`, or JSONL.") from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise PromptsError(f"{path} cannot be read: give a CSV with a column `text`, or JSONL, in UTF-8.") from error
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return [_of_json(line, number, path) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    reader = csv.DictReader(raw.splitlines())
    if "text" not in (reader.fieldnames or ()):
        raise PromptsError(f"{path} has no column `text` in its first line: name the column of the questions so.")
    return [row["text"] or "" for row in reader]


def _of_json(line: str, number: int, path: Path) -> str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise PromptsError(f"{path}, line {number}, is not JSON: {error.msg}.") from None
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise PromptsError(f"{path}, line {number}, has no `text`: each line is an object with one.")
    return text
