"""What the demo shows while it runs: a table that grows, and a bar for what is going on. Plain lines off a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace_local.demo.facts import Measurement, VersionFacts
from headrace_local.state import ProcessState

_STYLES = {"promoted": "green", "held": "yellow", "rejected": "red"}


class Screen:
    """Use as a context manager; every method returns at once."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._rows = Table("feedback", "version", "gate", "satisfaction", "tokens per answer", box=None, pad_edge=False)
        self._live = Live(Group(self._rows, self._progress), console=console, refresh_per_second=4)
        self._lines = not console.is_terminal

    def __enter__(self) -> Self:
        if not self._lines:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._lines:
            self._live.stop()

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    @contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator["Bar"]:
        """A bar for as long as something takes."""
        bar = Bar(self._progress, self._progress.add_task(description, total=total))
        if self._lines:
            self.say(f"{description} …")
        try:
            yield bar
        finally:
            self._progress.remove_task(bar.task)

    def process(self, process: ProcessState, bar: "Bar") -> None:
        """A part of the stack changed."""
        if process.status == "ready":
            self.say(f"  [green]●[/] {process.name} after {process.seconds or 0:.1f} s")
            bar.on(bar.done + 1)
        elif process.status == "done":
            bar.on(bar.done + 1)
        elif process.status in ("failed", "restarting"):
            self.say(f"  [red]●[/] {process.name} {process.status}: {process.error or 'see its log'}")

    def measured(self, m: Measurement, gate: str) -> None:
        """A row of the table."""
        shown = [str(m.events), f"v{m.version}", gate, f"{m.satisfaction:.0%}", f"{m.tokens_per_answer:.1f}"]
        self._row(shown)

    def unmoved(self, version: VersionFacts) -> None:
        """A version that does not answer users."""
        colour = _STYLES.get(version.outcome, "red")
        self._row([str(version.events), f"v{version.version}", f"[{colour}]{version.outcome}[/]", "", ""])

    def _row(self, cells: list[str]) -> None:
        self._rows.add_row(*cells)
        if self._lines:
            names = ("feedback", "version", "gate", "held-out satisfaction", "tokens per answer")
            self.say("; ".join(f"{name} {cell}" for name, cell in zip(names, cells, strict=True) if cell))


class Bar:
    """One running thing."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self.task = task
        self.done: float = 0

    def on(self, done: float, description: str | None = None) -> None:
        """So much of it is done."""
        self.done = done
        self._progress.update(self.task, completed=done, description=description)

    def now(self, description: str, share: float | None = None) -> None:
        """What is going on, and which share of it is done."""
        total = None if share is None else 100
        self._progress.update(self.task, description=description, total=total, completed=round(100 * (share or 0)))
