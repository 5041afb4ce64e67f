"""`headrace feedback`: a judgement by hand."""

import json as jsonlib
import math
from typing import Annotated, Any

import typer

from headrace_cli import screen
from headrace_cli.calls import call
from headrace_cli.errors import Problem
from headrace_cli.places import Places


def register(app: typer.Typer) -> None:
    """Hang the command on the tree."""
    app.command()(feedback)


def feedback(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="ID", help="The answer's id, or an episode's (ep-…).", show_default=False)
    ],
    metric: Annotated[
        str, typer.Argument(help="accepted, comment, demonstration, or a name of your own.", show_default=False)
    ],
    value: Annotated[
        str, typer.Argument(help="true, false, a number, words; null takes an opinion back.", show_default=False)
    ],
    comment: Annotated[str | None, typer.Option(help="In words, beside the value.", show_default=False)] = None,
    source: Annotated[str | None, typer.Option(help="Whose opinion it is: a pseudonym.", show_default=False)] = None,
    correlation: Annotated[
        bool, typer.Option("--correlation", help="ID is the app's own, sent with the request.")
    ] = False,
) -> None:
    """Say what an answer was worth."""
    places: Places = context.obj
    kind = "correlation_id" if correlation else ("episode_id" if target.startswith("ep-") else "inference_id")
    body: dict[str, Any] = {kind: target, "metric_name": metric, "value": read_value(metric, value)}
    if comment is not None:
        body["comment"] = comment
    if source is not None:
        body["source"] = {"kind": "human", "id": source}
    taken = call(places, "gateway", "POST", "/v1/feedback", body=body)
    screen.out().print(f"Taken as {screen.clean(taken['id'])}.")


def read_value(metric: str, text: str) -> Any:
    """JSON where it is JSON, else the words themselves; for a comment and a demonstration always the words."""
    if metric in ("comment", "demonstration") and text != "null":
        return text

    def refuse(constant: str) -> Any:
        raise Problem(f"{constant} is no number that feedback can carry: give a finite one.", 2)

    def finite(number: str) -> float:
        return float(number) if math.isfinite(float(number)) else refuse(number)

    try:
        return jsonlib.loads(text, parse_constant=refuse, parse_float=finite)
    except ValueError:
        return text
