"""What counts as a word, a line and markup: decided once, for rewards and suites alike."""

import re

_MARKUP = (
    ("a code fence", re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)),
    ("a heading", re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)),
    ("a list", re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE)),
    ("a quotation", re.compile(r"^ {0,3}>", re.MULTILINE)),
    ("a table", re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)),
    ("a link", re.compile(r"\]\([^()\s]{1,2000}\)")),
    ("code", re.compile(r"`[^`\n]{1,2000}`")),
    ("bold", re.compile(r"\*\*[^*\s][^*\n]{0,2000}\*\*|(?<!\w)__[^_\s][^_\n]{0,2000}__(?!\w)")),
    ("emphasis", re.compile(r"(?<![\w*])\*[^*\s][^*\n]{0,2000}\*(?![\w*])|(?<!\w)_[^_\s][^_\n]{0,2000}_(?!\w)")),
)


def count_words(text: str) -> int:
    """Words in `text`: runs between white space (Unicode's) that hold at least one letter or digit.

    So "don't" and "24/7" are one word each, and a lone dash or list mark is none. Scripts written without spaces count
    a run as one word: for them bound `max_words` by what a run is.
    """
    return sum(1 for run in text.split() if any(map(str.isalnum, run)))


def count_lines(text: str) -> int:
    """Lines of the stripped text; a blank text has none. Every Unicode line break counts."""
    return len(text.strip().splitlines())


def markup(text: str) -> str | None:
    """The first kind of Markdown in `text`, in words; None where there is none."""
    return next((name for name, pattern in _MARKUP if pattern.search(text)), None)


def holds_word(text: str, word: str) -> bool:
    """Whether `word` (which may be several) stands in `text` by itself, whatever the case."""
    return re.search(rf"(?<!\w){re.escape(word.strip().casefold())}(?!\w)", text.casefold()) is not None
