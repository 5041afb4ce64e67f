"""What moves a policy: apply, promote, rollback, explain."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace_cli import screen
from headrace_cli.calls import Refused, call, me
from headrace_cli.errors import Problem
from headrace_cli.names import number, only_policy, parse
from headrace_cli.places import Places
from headrace_cli.story import tell

Name = Annotated[str, typer.Argument(metavar="POLICY@vN", help="For example support@v3.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why, for the audit.")]
By = Annotated[str | None, typer.Option(help="Who does it, for the audit; else your login.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Hang the commands on the tree."""
    for command in (apply, promote, rollback, explain):
        app.command()(command)


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", help="The policy file.", show_default=False)],
    by: By = None,
) -> None:
    """Apply a policy file: what answers, what a good answer is worth, when to train, what a version must prove."""
    places: Places = context.obj
    from headrace_cli.policyfile import PolicyFileError, read_policy

    try:
        spec = read_policy(file)
    except PolicyFileError as error:
        raise Problem(str(error)) from None
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror or error}.") from None
    answer = call(places, "registry", "PUT", f"/v1/policies/{spec.policy}", body=spec.canonical(), by=by or me())
    done = "Applied" if answer["changed"] else "Nothing has changed in"
    screen.out().print(f"{done} {spec.policy}, revision {answer['revision']} ({screen.short(answer['digest'])}).")
    _remind_of_suite(places, spec.gate.suite)


def _remind_of_suite(places: Places, suite: str) -> None:
    """Without its suite no version is judged, and each is given up in the end; say so while somebody is looking."""
    try:
        call(places, "evaluation", "GET", f"/v1/suites/{suite}")
    except Refused:
        screen.out().print(
            f"Its gate needs the suite {suite}, which is not there yet: headrace evals push {suite} -f cases.jsonl",
            style="yellow",
        )
    except Problem:
        return  # the policy is applied; whether evaluation answers is another matter


def promote(
    context: typer.Context,
    name: Name,
    reason: Reason = "",
    force: Annotated[bool, typer.Option("--force", help="Without a gate report that says so; needs --reason.")] = False,
    by: By = None,
) -> None:
    """Make a version champion."""
    places: Places = context.obj
    named = parse(name)
    body = {"version": number(named), "by": by or me(), "reason": reason, "force": force}
    if force and not reason:
        raise Problem("--force passes the gate over: say why with --reason TEXT.", 2)
    moved(named.policy, call(places, "registry", "POST", f"/v1/policies/{named.policy}/promote", body=body))


def rollback(
    context: typer.Context,
    policy: Annotated[
        str | None, typer.Argument(help="May be left out where there is one.", show_default=False)
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="vN", help="Else the champion before.", show_default=False)] = None,
    reason: Reason = "",
    by: By = None,
) -> None:
    """Put the champion before back, at once. The version left is quarantined."""
    places: Places = context.obj
    named = parse(policy or only_policy(places))
    target = to or named.version
    body: dict[str, Any] = {"by": by or me(), "reason": reason}
    if target is not None:
        body["version"] = number(parse(f"{named.policy}@{target}"))
    moved(named.policy, call(places, "registry", "POST", f"/v1/policies/{named.policy}/rollback", body=body))


def moved(policy: str, answer: dict[str, Any]) -> None:
    """What became of a promotion or a rollback, in a sentence."""
    champion = answer["route"]["champion"]["version"]
    what = "the base model" if champion == 0 else f"v{champion}"
    if answer["status"] == "preparing":
        waits = screen.clean(answer.get("waits_for") or "an engine")
        screen.out().print(
            f"{policy}@v{answer['version']} is being loaded and proved ({waits}); the move follows by itself. "
            f"Until then {what} answers."
        )
    elif answer["status"] == "unchanged":
        screen.out().print(f"Nothing to do: {what} answers for {policy} already (epoch {answer['epoch']}).")
    else:
        screen.out().print(
            f"{what[0].upper() + what[1:]} answers for {policy} now (epoch {answer['epoch']}).", style="green"
        )


def explain(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="VERSION", help="support@v3, support@champion, or a policy.", show_default=False)
    ],
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Why a version is what it is: parent, data, reward, run, gate report, who promoted it, where it runs."""
    places: Places = context.obj
    named = parse(name)
    facts = call(places, "registry", "GET", f"/v1/versions/{named.policy}/{named.version or 'champion'}")
    if json:
        screen.emit_json(facts)
    else:
        tell(facts)
