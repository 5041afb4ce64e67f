"""`headrace versions`: list and show."""

from typing import Annotated, Any

import typer

from headrace_cli import screen
from headrace_cli.calls import call
from headrace_cli.names import only_policy, parse, policies
from headrace_cli.places import Places

AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def app() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(help="Adapter versions of a policy: list and show.", no_args_is_help=True)
    group.command("list")(list_)
    group.command()(show)
    return group


def list_(
    context: typer.Context,
    policy: Annotated[str | None, typer.Argument(help="Else every policy.", show_default=False)] = None,
    json: AsJson = False,
) -> None:
    """Every version, newest first: its state, its verdict, where it is ready."""
    places: Places = context.obj
    names = [parse(policy).policy] if policy else [row["policy"] for row in policies(places)]
    rows = [row for name in names for row in call(places, "registry", "GET", f"/v1/policies/{name}/versions")["data"]]
    if json:
        screen.emit_json(rows)
        return
    if not names:
        screen.out().print("There is no policy yet: headrace apply -f policy.yaml")
        return
    screen.show_table(
        ("version", "state", "verdict", "suite score#", "from", "data#", "ready on", "registered"),
        [
            (
                f"{r['policy']}@{'base' if r['version'] == 0 else 'v' + str(r['version'])}",
                screen.word(r.get("state")),
                screen.word(r.get("verdict")),
                _scores(r),
                {None: None, 0: "base"}.get(r.get("parent_version"), f"v{r.get('parent_version')}"),
                r.get("samples"),
                ", ".join(r.get("ready_on") or []) if r["version"] else "all",
                screen.since(r.get("registered_at")),
            )
            for r in rows
        ],
    )


def _scores(row: dict[str, Any]) -> str | None:
    """On the suite: its own beside the champion's of then."""
    if row.get("candidate_score") is None:
        return None
    return f"{screen.number(row['candidate_score'])} vs {screen.number(row.get('champion_score'))}"


def show(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="support@v3, support@champion or a policy.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """One version in figures; `headrace explain` tells its story."""
    places: Places = context.obj
    named = parse(name or only_policy(places))
    facts = call(places, "registry", "GET", f"/v1/versions/{named.policy}/{named.version or 'champion'}")
    if json:
        screen.emit_json(facts)
        return
    run, data, route = facts.get("run") or {}, facts.get("data") or {}, facts.get("route") or {}
    report = (facts.get("reports") or [{}])[0]
    numbers = report.get("statistics") or {}
    screen.show_table(
        ("", ""),
        [
            ("version", f"{facts['policy']}@v{facts['version']}"),
            ("state", screen.word(facts.get("state"))),
            ("role", screen.word(route.get("role"))),
            ("epoch", route.get("epoch")),
            ("base model", facts.get("base_model")),
            ("digest", facts.get("digest")),
            ("engine's name", facts.get("engine_model")),
            ("parents", " ← ".join(f"v{p['version']}" for p in facts.get("parents") or [])),
            ("run", run.get("run_id")),
            ("recipe", run.get("recipe")),
            ("trained on", data.get("samples")),
            ("verdict", screen.word(report.get("verdict"))),
            ("suite score", screen.number(numbers.get("candidate")) if numbers else None),
            ("champion's", screen.number(numbers.get("champion")) if numbers else None),
            ("cases", numbers.get("cases")),
            (
                "ready on",
                ", ".join(r["replica"] for r in facts.get("replicas") or [] if r["state"] in ("ready", "base")),
            ),
            ("registered", screen.when(facts.get("registered_at"))),
        ],
    )
