"""The local stack: up, down, status, doctor, logs, demo, bench."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from headrace_cli import screen
from headrace_cli.errors import Problem
from headrace_cli.places import Places
from headrace_cli.progress import Progress

if TYPE_CHECKING:
    from headrace_local.options import StackOptions
    from headrace_local.state import ProcessState, StackState

T = TypeVar("T")
Broker = Annotated[
    str | None,
    typer.Option(
        help="embedded, kafka (Apache Kafka from KAFKA_HOME) or host:port of one that runs; else HEADRACE_BROKER."
    ),
]
Model = Annotated[str | None, typer.Option(help="Folder of the base model (safetensors); else SmolLM2-135M-Instruct.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def register(app: typer.Typer) -> None:
    """Hang the commands on the tree."""
    for command in (up, down, status, doctor, logs, demo, bench):
        app.command()(command)


def _local(use: Callable[[], T]) -> T:
    """Use `headrace_local`, whose packages are an extra of their own."""
    try:
        return use()
    except ModuleNotFoundError as missing:
        raise Problem(
            f"{missing.name} is not installed: pip install 'headrace[local]' brings the local stack."
        ) from missing


def _options(broker: str | None, model: str | None, engine: str | None = None) -> "StackOptions":
    from headrace_local.options import OptionError, StackOptions

    chosen = {"broker": broker, "model": model, "engine": engine}
    try:
        return StackOptions.from_environment(**{k: v for k, v in chosen.items() if v is not None})
    except OptionError as error:
        raise Problem(str(error), 2) from None


def up(
    context: typer.Context,
    broker: Broker = None,
    model: Model = None,
    engine: Annotated[str | None, typer.Option(help="vllm, or none: everything but the engine and its agent.")] = None,
) -> None:
    """Start the stack in the background, or find the one that runs."""
    places: Places = context.obj
    options = _options(broker, model, engine)

    def start() -> "StackState":
        from headrace_local.stack import StackError, down, up

        try:
            with Progress() as progress:
                return up(places.root, options, progress.note)
        except StackError as error:
            raise Problem(str(error)) from None
        except KeyboardInterrupt:
            screen.err().print("Stopping what had started …")
            down(places.root)
            raise

    state = _local(start)
    said = "A stack runs here already" if state.found else "The stack is up"
    if state.found and (state.options.broker, state.options.engine) != (options.broker, options.engine):
        said += f", with the {state.options.broker} broker and engine {state.options.engine}"
    screen.out().print(f"{said}.\n", style="green")
    _addresses(state)


def _addresses(state: "StackState") -> None:
    rows: list[tuple[str, str]] = [(n, state.url(n)) for n in ("gateway", "console", "registry") if n in state.ports]
    if "vllm" in state.ports and state.base_model:
        rows.append(("base model", state.base_model))
    screen.show_table(("", ""), rows)
    if state.api_key:  # one line however narrow the terminal: it is copied
        typer.echo(
            f"\nFor an app:  export HEADRACE_GATEWAY_URL={state.gateway_url} HEADRACE_API_KEY={state.api_key}\n"
            "Next:        headrace apply -f policy.yaml"
        )


def down(context: typer.Context) -> None:
    """Stop the stack; its data stay."""
    places: Places = context.obj

    def stop() -> list[str]:
        from headrace_local.stack import down

        return down(places.root)

    stopped = _local(stop)
    screen.out().print(
        f"Stopped {len(stopped)} processes; the data stay in {places.root / '.headrace'}."
        if stopped
        else "No stack ran here."
    )


def status(context: typer.Context, json: AsJson = False) -> None:
    """What runs, where, since when, and how often it was started again."""
    places: Places = context.obj

    def look() -> "StackState | None":
        from headrace_local.stack import status

        return status(places.root)

    state = _local(look)
    if state is None:
        raise Problem(f"There is no stack in {places.root}: `headrace up` starts one.")
    if json:
        screen.emit_json(state.to_json())
    else:
        _show_status(state)
    if state.phase in ("failed", "gone"):
        raise Problem(state.error or "The supervisor has died: `headrace up` starts the stack anew, data are kept.")


def _show_status(state: "StackState") -> None:
    line = Text(f"{state.root}: ")
    line.append_text(screen.word(state.phase))
    line.append(f", broker {state.options.broker}, engine {state.options.engine}")
    screen.out().print(line)
    now = time.time()
    rows = []
    for p in state.processes.values():
        runs = p.status in ("starting", "ready", "restarting")
        up_for = _span(now - p.started) if runs and p.started else None
        rows.append((p.name, screen.word(p.status), p.pid if runs else None, up_for, p.restarts or None, _where(p)))
    screen.show_table(("process", "state", "pid#", "for#", "restarts#", "where"), rows)
    for p in state.processes.values():
        if p.error and p.status != "ready":
            screen.out().print(f"{p.name}: {screen.clean(p.error)}", style="red")


def _where(process: "ProcessState") -> object:
    """The address of what speaks HTTP, the port of the rest."""
    return process.url if process.url and process.url.startswith("http") else process.port


def _span(seconds: float) -> str:
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"


def doctor(context: typer.Context, broker: Broker = None, model: Model = None, json: AsJson = False) -> None:
    """Whether this machine can run the stack, and what to do where it cannot."""
    places: Places = context.obj
    options = _options(broker, model)

    def look() -> list[Any]:
        from headrace_local.doctor import doctor

        return list(doctor(places.root, options))

    checks = _local(look)
    if json:
        screen.emit_json([{"name": c.name, "verdict": c.verdict, "says": c.says} for c in checks])
    else:
        screen.show_table(("", "", ""), [(screen.word(c.verdict), c.name, c.says) for c in checks])
    problems = [c for c in checks if c.verdict == "problem"]
    if problems:
        raise Problem(f"The stack cannot start here yet: mend {', '.join(c.name for c in problems)} first.")


def logs(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A process of the stack, e.g. gateway, training, vllm.", show_default=False)
    ],
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many of the last lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """What a process of the stack has written."""
    places: Places = context.obj
    from headrace_local.options import layout

    folder = layout(places.root).logs
    there = sorted(path.stem for path in folder.glob("*.log")) if folder.is_dir() else []
    if not there:
        raise Problem(f"There are no logs in {places.root}: no stack was ever started here, `headrace up` does it.")
    if name not in there:
        raise Problem(f"No process is called {name[:80]!r}; there are {', '.join(there)}.", 2)
    with (folder / f"{name}.log").open(errors="replace") as log:
        for line in deque(log, lines):
            typer.echo(line, nl=False)
        while follow:
            line = log.readline()
            if line:
                typer.echo(line, nl=False)
            else:
                time.sleep(0.2)


def demo(
    events: Annotated[int, typer.Option(help="Pieces of feedback that may be used up.")] = 256,
    seed: Annotated[int, typer.Option(help="Of the simulated users.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running at the end.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures there.", show_default=False)] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Your own questions: CSV with a column text, or JSONL.", show_default=False),
    ] = None,
    report: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("report"),
    folder: Annotated[Path, typer.Option(help="Folder of the demo's own stack.")] = Path(".headrace-demo"),
    model: Model = None,
    broker: Broker = None,
) -> None:
    """A real language model learns from simulated users while it serves them. Takes about twenty minutes."""
    options = _options(broker, model)

    def play() -> int:
        from headrace_local.demo import DemoOptions, run

        try:
            chosen = DemoOptions(
                events=events,
                seed=seed,
                keep=keep,
                json=json,
                prompts=prompts,
                report=report,
                root=folder,
                stack=options,
            )
        except ValueError as error:
            raise Problem(str(error), 2) from None
        return run(chosen)

    raise typer.Exit(_local(play))


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark.", show_default=False)],
    json: Annotated[Path | None, typer.Option(help="Write the figures there.", show_default=False)] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter of the benchmark; may be given again.", show_default=False
        ),
    ] = None,
) -> None:
    """Measure a bar beside its limit or its rival, in the same run."""
    from headrace_cli.benches import play

    report = _local(lambda: play(name, set_ or []))
    rows = [
        (
            r.bar,
            screen.styled(f"{r.figure:.3g}", "green" if r.reached else "red"),
            f"{'≥' if r.at_least else '≤'} {r.limit:g}",
            f"{r.spread[0]:.3g} to {r.spread[1]:.3g}",
            r.unit,
        )
        for r in report.rows
    ]
    screen.show_table(("bar", "figure#", "limit#", "spread", ""), rows)
    if json is not None:
        report.write(json)
    if not all(r.reached for r in report.rows):
        raise Problem("A bar was not reached.")
