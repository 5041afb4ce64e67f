"""The stack as it comes up: one living table on a terminal, one line a change elsewhere."""

from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace_cli import screen

if TYPE_CHECKING:
    from headrace_local.state import ProcessState


class Progress:
    """Shows each process; to stderr, so that stdout stays for what is asked for."""

    def __init__(self) -> None:
        self._states: dict[str, ProcessState] = {}
        self._console = screen.err()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, process: "ProcessState") -> None:
        self._states[process.name] = process
        if self._live is not None:
            self._live.update(self._picture())
            return
        line = f"{process.name}: {process.status}"
        line += f" after {process.seconds:.1f} s" if process.seconds and process.status in ("ready", "done") else ""
        line += f" ({screen.clean(process.error)})" if process.error else ""
        self._console.print(line)

    def _picture(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        for p in self._states.values():
            busy = p.status in ("starting", "restarting")
            mark = (
                Spinner("dots", style="yellow")
                if busy
                else Text("✓" if p.status in ("ready", "done") else "·", style="green")
            )
            note = f"{p.seconds:.1f} s" if p.seconds and not busy else screen.clean(p.error or "")
            table.add_row(mark, p.name, screen.word(p.status), Text(note, style="dim"))
        return table
