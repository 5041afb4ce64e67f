"""Numbers and times in words. A number never stands without its n."""

from datetime import datetime

NONE = "\u2013"
"""Stands where there is no number yet."""


def ago(then: datetime | None, now: datetime) -> str:
    """How long ago, in one unit: `12 s ago`."""
    if then is None:
        return "never"
    seconds = (now - then).total_seconds()
    if seconds < 1:  # clocks of two machines differ
        return "just now"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"


def absolute(then: datetime | None) -> str:
    return "" if then is None else then.strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int) -> str:
    """With thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u202f")


def share(value: float | None) -> str:
    """A mean in [0, 1] with two digits; an en dash where there is none."""
    return NONE if value is None else f"{value:.2f}"


def tokens(value: float | None) -> str:
    return NONE if value is None else (f"{value:.1f}" if value < 100 else f"{value:.0f}")


def name_of(version: int) -> str:
    """`v3`; version 0 is the base model."""
    return "base" if version == 0 else f"v{version}"


def plural(number: int, one: str, many: str = "") -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def evidence(e_value: float) -> str:
    """An e-value as odds: `34 : 1`, or a power of ten where it is large."""
    if e_value >= 10_000:
        mantissa, exponent = f"{e_value:.0e}".split("e")
        return f"{mantissa}·10^{int(exponent)} : 1"
    return f"{e_value:.0f} : 1" if e_value >= 10 else f"{e_value:.1f} : 1"
