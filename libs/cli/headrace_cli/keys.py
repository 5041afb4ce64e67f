"""`headrace keys`: who may ask, who may judge."""

from typing import Annotated
from urllib.parse import quote

import typer

from headrace_cli import screen
from headrace_cli.calls import call, me
from headrace_cli.errors import Problem
from headrace_cli.places import Places

SCOPES = ("inference", "feedback", "evaluate")
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def app() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(help="API keys of the gateway: create, list, revoke.", no_args_is_help=True)
    for command in (create, revoke):
        group.command()(command)
    group.command("list")(list_)
    return group


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What you will know it by.", show_default=False)],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="inference, feedback or evaluate; may be given again. Else the first two.", show_default=False
        ),
    ] = None,
    project: Annotated[str, typer.Option(help="The tenant that it belongs to.")] = "default",
    json: AsJson = False,
) -> None:
    """Make a key. Its secret is shown this once."""
    places: Places = context.obj
    scopes = scope or ["inference", "feedback"]
    if unknown := [s for s in scopes if s not in SCOPES]:
        raise Problem(f"{unknown[0][:80]!r} is no scope: there are {', '.join(SCOPES)}.", 2)
    body = {"name": name, "scopes": scopes, "project": project}
    made = call(places, "registry", "POST", "/v1/keys", body=body, by=me())
    if json:
        screen.emit_json(made)
        return
    typer.echo(made["secret"])
    screen.err().print(
        f"{screen.clean(name)} may {' and '.join(scopes)} in {project}. Keep the secret: it is not shown again. "
        f"Revoke it with: headrace keys revoke {made['prefix']}"
    )


def list_(context: typer.Context, json: AsJson = False) -> None:
    """Every key, without its secret."""
    places: Places = context.obj
    rows = call(places, "registry", "GET", "/v1/keys")["data"]
    if json:
        screen.emit_json(rows)
        return
    if not rows:
        screen.out().print("There is no key yet: headrace keys create NAME")
        return
    screen.show_table(
        ("prefix", "name", "project", "scopes", "", "made"),
        [
            (
                r["prefix"],
                r.get("name"),
                r.get("project"),
                ", ".join(r["scopes"]),
                screen.styled("revoked", "red") if r.get("revoked") else screen.styled("", ""),
                screen.since(r.get("created_at")),
            )
            for r in rows
        ],
    )


def revoke(
    context: typer.Context,
    prefix: Annotated[str, typer.Argument(help="The eight characters after hr_.", show_default=False)],
) -> None:
    """Make a key worthless, at every gateway within seconds."""
    places: Places = context.obj
    plain = prefix.removeprefix("hr_").split("_")[0]
    call(places, "registry", "DELETE", f"/v1/keys/{quote(plain, safe='')}", by=me())
    screen.out().print(f"The key {screen.clean(plain)} is revoked.")
