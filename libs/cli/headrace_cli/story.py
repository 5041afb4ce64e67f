"""`headrace explain`: what is known of a version, told in the order in which it happened."""

from typing import Any

from rich.text import Text

from headrace_cli import screen
from headrace_cli.screen import clean, number, short, when

Facts = dict[str, Any]


def tell(facts: Facts) -> None:
    """Print it."""
    policy, version = facts["policy"], facts["version"]
    role = (facts.get("route") or {}).get("role") or facts["state"]
    title = Text(f"{policy}@v{version}" if version else f"{policy}@base", style="bold")
    title.append(f"  {clean(role)}", style=screen.STYLES.get(str(role), "cyan"))
    screen.out().print(title)
    for label, lines in _paragraphs(facts):
        for index, line in enumerate(lines):
            text = Text(f"{label if index == 0 else '':<10}", style="dim")
            text.append(line, style="default")
            screen.out().print(text)


def _paragraphs(facts: Facts) -> list[tuple[str, list[str]]]:
    told = [
        ("State", _state(facts)),
        ("Parent", _parent(facts)),
        ("Data", _data(facts)),
        ("Reward", _reward(facts)),
        ("Run", _run(facts)),
        ("File", _file(facts)),
        ("Gate", _gate(facts)),
        ("Promoted", _promoted(facts)),
        ("Loaded", _loaded(facts)),
        ("History", _history(facts)),
    ]
    return [(label, lines) for label, lines in told if lines]


def _name(version: object) -> str:
    return "the base model" if version == 0 else f"v{version}"


def _state(facts: Facts) -> list[str]:
    said = f"{clean(facts['state'])} since {when(facts.get('state_at'))}"
    reason = clean(facts.get("reason") or "")
    route = facts.get("route") or {}
    lines = [f"{said}: {reason}" if reason else said]
    if route.get("epoch") is not None:
        lines.append(f"route epoch {route['epoch']}")
    return lines


def _parent(facts: Facts) -> list[str]:
    if facts["version"] == 0:
        return [f"none: this is {clean(facts.get('base_model'))} without an adapter"]
    parents = facts.get("parents") or []
    chain = " ← ".join("base" if p["version"] == 0 else f"v{p['version']}" for p in parents) or screen.NONE
    return [f"{chain}, on {clean(facts.get('base_model'))}"]


def _data(facts: Facts) -> list[str]:
    data = facts.get("data") or {}
    if not data.get("manifest_digest"):
        return []
    return [
        f"{data.get('samples')} trajectories",
        f"manifest {short(data['manifest_digest'])} at {clean(data.get('manifest_key') or '')}",
    ]


def _reward(facts: Facts) -> list[str]:
    if not facts.get("reward_spec_digest"):
        return []
    policy = f"policy file revision {facts.get('policy_revision')} ({short(facts.get('policy_digest'))})"
    return [f"spec {short(facts['reward_spec_digest'])}, {policy}"]


def _run(facts: Facts) -> list[str]:
    run = facts.get("run") or {}
    if not run.get("run_id"):
        return []
    lines = [f"{clean(run['run_id'])}, recipe {clean(run.get('recipe'))} ({short(run.get('recipe_digest'))})"]
    metrics = run.get("metrics") or {}
    if metrics:
        lines.append(", ".join(f"{clean(k)} {v:.4g}" for k, v in sorted(metrics.items()) if isinstance(v, int | float)))
    return lines


def _file(facts: Facts) -> list[str]:
    if not facts.get("digest"):
        return []
    return [
        f"sha256 {clean(facts['digest'])}, {facts.get('size_bytes', 0) / 1e6:.1f} MB",
        clean(facts.get("object_key")),
    ]


def _gate(facts: Facts) -> list[str]:
    reports = facts.get("reports") or []
    if not reports:
        return [] if facts["version"] == 0 else ["no report yet"]
    lines = []
    for report in reports:
        s = report["statistics"]
        lines.append(f"{clean(report['verdict'])}, {when(report.get('occurred_at'))}: {clean(report.get('because'))}")
        lines.append(
            f"  suite {clean(report['suite'])} ({short(report.get('suite_digest'))}), {s['cases']} cases: "
            f"{number(s['candidate'])} against {number(s['champion'])} of {_name(report['champion_version'])}; "
            f"evidence {s['e_value']:.3g}, {1 / s['alpha']:.3g} needed; of harm {s['e_harm']:.3g}"
        )
        for guard in report.get("guards") or []:
            kept = "kept" if guard["passed"] else "not kept"
            lines.append(
                f"  guard {clean(guard['metric'])}: {guard['candidate']:.3g} against {guard['champion']:.3g}, "
                f"at most {guard['limit']:.3g} times as much: {kept}"
            )
    return lines


def _promoted(facts: Facts) -> list[str]:
    promoted, pending = facts.get("promoted"), facts.get("pending")
    lines = []
    if promoted:
        because = f": {clean(promoted['reason'])}" if promoted.get("reason") else ""
        lines.append(f"by {clean(promoted['by'])}, {when(promoted.get('at'))}{because}")
    if pending:
        who = f"a {clean(pending.get('kind'))} by {clean(pending.get('by'))}"
        lines.append(f"{who} waits for the engines, since {when(pending.get('at'))}")
    if not lines and facts["version"]:
        lines.append("never")
    return lines


def _loaded(facts: Facts) -> list[str]:
    proofs = {p["replica"]: p for p in facts.get("proofs") or []}
    lines = []
    for seen in facts.get("replicas") or []:
        silent = "" if seen.get("live") else " (silent)"
        line = f"{clean(seen['replica'])}: {clean(seen['state'])}{silent}, seen {when(seen.get('observed_at'))}"
        probe = (proofs.get(seen["replica"]) or {}).get("probe")
        if probe:
            line += (
                f"; proved in {number(probe.get('seconds'), 1)} s, differs from base by up to "
                f"{number(probe.get('max_abs_logprob_delta'))} nats"
                if probe.get("finite") and probe.get("differs_from_base")
                else f"; not proved: {clean(probe.get('reason') or 'no effect')}"
            )
        lines.append(line)
    return lines or (["on no engine"] if facts["version"] else [])


def _history(facts: Facts) -> list[str]:
    return [
        f"{when(entry['at'])}  {clean(entry['action'])} by {clean(entry['by'])}"
        + (f": {clean(entry['reason'])}" if entry.get("reason") else "")
        for entry in reversed(facts.get("audit") or [])
    ]
