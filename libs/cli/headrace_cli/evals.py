"""`headrace evals`: private suites for the gate."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from headrace_cli import screen
from headrace_cli.calls import Refused, call, me
from headrace_cli.errors import Problem
from headrace_cli.places import Places

MAX_BYTES = 20_000_000
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def app() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(help="Private suites for the gate: push, list, reports.", no_args_is_help=True)
    group.command()(push)
    group.command("list")(list_)
    group.command()(reports)
    return group


def push(
    context: typer.Context,
    suite: Annotated[str, typer.Argument(help="The name that policy files call it by.", show_default=False)],
    file: Annotated[
        Path,
        typer.Option("--file", "-f", help="JSONL with a case a line, or JSON or YAML with cases.", show_default=False),
    ],
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The longest answer.", show_default=False)] = None,
) -> None:
    """Push a suite. It is encrypted at rest, and its contents never leave the evaluation service."""
    places: Places = context.obj
    document, lines = read_suite(file)
    try:  # YAML knows dates and infinities
        document = jsonlib.loads(jsonlib.dumps(document, default=str, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise Problem(f"{file} cannot be written as JSON: {error}.") from None
    if max_tokens is not None:
        document["max_tokens"] = max_tokens
    try:
        stored = call(places, "evaluation", "PUT", f"/v1/suites/{suite}", body=document, by=me())
    except Refused as refused:
        raise _located(file, lines, refused) from None
    done = "Pushed" if stored["changed"] else "Nothing has changed in"
    screen.out().print(f"{done} {suite}: {stored['cases']} cases ({screen.short(stored['digest'])}).")


def read_suite(file: Path) -> tuple[dict[str, Any], list[int]]:
    """The suite, and the line of each case where it is JSONL. Raises Problem with the line that is wrong."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise Problem(f"{file} has more than {MAX_BYTES // 1_000_000} MB: push fewer cases.")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise Problem(f"{file} is not UTF-8.") from None
    if file.suffix in (".jsonl", ".ndjson"):
        return _jsonl(file, text)
    try:
        document = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise Problem(
            f"{file}:{line}: neither JSON nor YAML: {getattr(error, 'problem', None) or 'it cannot be read'}."
        ) from None
    if isinstance(document, list):
        document = {"cases": document}
    if not isinstance(document, dict) or not isinstance(document.get("cases"), list):
        raise Problem(f"{file} is no suite: it holds a list of cases, or an object with `cases`.")
    return document, []


def _jsonl(file: Path, text: str) -> tuple[dict[str, Any], list[int]]:
    cases, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            cases.append(jsonlib.loads(line))
        except ValueError as error:
            raise Problem(f"{file}:{number}: not JSON: {error}.") from None
        lines.append(number)
    if not cases:
        raise Problem(f"{file} holds no case: one JSON object a line, with id, prompt and rule.")
    return {"cases": cases}, lines


def _located(file: Path, lines: list[int], refused: Refused) -> Problem:
    """The service's field as the file's line."""
    steps = refused.param.split(".")
    if len(steps) >= 2 and steps[0] == "cases" and steps[1].isdigit():
        index = int(steps[1])
        where = f"{file}:{lines[index]}" if index < len(lines) else f"{file}: case {index + 1}"
        said = screen.clean(refused.message).removeprefix(f"{refused.param}: ")
        field = ".".join(steps[2:])
        return Problem(f"{where}: {field}: {said}." if field else f"{where}: {said}.")
    return refused


def list_(context: typer.Context, json: AsJson = False) -> None:
    """Every suite: its digest and size, never its contents."""
    places: Places = context.obj
    rows = call(places, "evaluation", "GET", "/v1/suites")["data"]
    if json:
        screen.emit_json(rows)
        return
    if not rows:
        screen.out().print("There is no suite yet: headrace evals push NAME -f cases.jsonl")
        return
    screen.show_table(
        ("suite", "cases#", "digest", "pushed by", "at"),
        [
            (r["suite"], r["cases"], screen.short(r["digest"]), r.get("updated_by"), screen.since(r.get("updated_at")))
            for r in rows
        ],
    )


def reports(
    context: typer.Context,
    policy: Annotated[str | None, typer.Argument(help="Else every policy.", show_default=False)] = None,
    json: AsJson = False,
) -> None:
    """Gate reports, what is being examined, and what waits for something."""
    places: Places = context.obj
    found = call(places, "evaluation", "GET", "/v1/evaluations", query={"policy": policy} if policy else {})
    if json:
        screen.emit_json(found)
        return
    rows: list[tuple[object, ...]] = [
        (f"{r['policy']}@v{r['version']}", screen.styled(name, "yellow"), None, None, None, r.get("because"))
        for name in ("waiting", "pending")
        for r in found.get(name, [])
    ]
    rows += [
        (
            f"{r['policy']}@v{r['candidate_version']}",
            screen.word(r["verdict"]),
            screen.number(r["statistics"]["candidate"]),
            screen.number(r["statistics"]["champion"]),
            r["statistics"]["cases"],
            r.get("because"),
        )
        for r in found["data"]
    ]
    if not rows:
        screen.out().print("Nothing has been examined yet: a run has to register a version first.")
        return
    screen.show_table(("version", "verdict", "score#", "champion's#", "cases#", "because"), rows)
