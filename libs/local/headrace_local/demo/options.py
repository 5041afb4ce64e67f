"""What the user may choose about the demo."""

from dataclasses import dataclass
from pathlib import Path

from headrace_local.options import StackOptions

POLICY = "support"
SUITE = "support-private"


@dataclass(frozen=True)
class DemoOptions:
    """The defaults are the demo of the README."""

    events: int = 256
    """Pieces of feedback that may be used up."""
    seed: int = 7
    """Of the simulated users: what they ask, whether they speak up, when they are mistaken."""
    keep: bool = False
    """Leave the stack running at the end."""
    json: Path | None = None
    """Write the figures there."""
    report: Path = Path("report")
    """Folder for the report and its pictures."""
    prompts: Path | None = None
    """One's own questions: CSV with a column `text`, or JSONL."""
    root: Path = Path(".headrace-demo")
    """Folder of the demo's own stack; emptied when a new demo starts."""
    stack: StackOptions | None = None
    """How the stack is started; None: as the environment says."""
    target: float = 0.8
    """Share of held-out answers that users would like at which the demo ends."""
    per_round: int = 32
    """Feedback in a round, which is also what starts a training run."""
    in_flight: int = 16
    """Users at once."""
    max_tokens: int = 48
    """The longest answer."""
    training_timeout_s: float = 1200
    gate_timeout_s: float = 900

    def __post_init__(self) -> None:
        if self.events < self.per_round:
            raise ValueError(f"--events {self.events} is less than one round: give at least {self.per_round}.")
