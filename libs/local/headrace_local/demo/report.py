"""The report: one HTML file with its pictures inside, for light and dark screens, and the pictures as SVG files."""

import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace_local.demo import charts
from headrace_local.demo.facts import PRICES, Facts, VersionFacts

STAGES = {
    "start": "start the stack",
    "asking": "users ask",
    "training": "train",
    "gate": "load, prove, judge",
    "held_out": "measure held-out",
    "rollback": "roll back",
}


def write(facts: Facts, folder: Path) -> Path:
    """The report's path; `folder` is made, and files of an earlier report are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for name, spec in specs(facts).items():
        pictures[name] = {shade: render(spec, dark=shade == "dark") for shade in ("light", "dark")}
        for shade, svg in pictures[name].items():
            (folder / f"{name}-{shade}.svg").write_text(svg)
    (folder / "demo.json").write_text(json.dumps(facts.to_json(), indent=2) + "\n")
    page = folder / "index.html"
    page.write_text(document(facts, pictures))
    return page


def specs(facts: Facts) -> dict[str, charts.Spec]:
    """Every chart by name."""
    curve = facts.to_json()["curve"]
    rows = [{"stage": STAGES.get(n, n), "seconds": s} for n, s in facts.stages_s.items()]
    return {
        "learning": charts.learning(curve, facts.target),
        "gate": charts.gate([vars(v) for v in facts.versions]),
        "cost": charts.cost(curve),
        "stages": charts.stages(rows),
    }


def render(spec: charts.Spec, *, dark: bool) -> str:
    """The chart as SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, config=charts.theme(dark=dark), allowed_base_urls=[]))


def document(facts: Facts, pictures: dict[str, dict[str, str]]) -> str:
    """The page."""
    first, last = facts.curve[0], facts.curve[-1]
    needed = facts.events_to_target()
    verdict = (
        f"{needed} pieces of feedback took held-out satisfaction to {facts.target:.0%} and beyond."
        if needed is not None
        else f"{facts.events} pieces of feedback did not take held-out satisfaction to {facts.target:.0%}."
    )
    tiles = _tiles(
        [
            (
                "held-out satisfaction",
                f"{first.satisfaction:.0%} → {last.satisfaction:.0%}",
                f"n = {len(last.answers)}",
            ),
            ("tokens per answer", f"{first.tokens_per_answer:.1f} → {last.tokens_per_answer:.1f}", f"v{last.version}"),
            ("feedback used", str(facts.events), f"of {facts.events_allowed} allowed"),
            ("requests", f"{facts.requests:,}", f"{facts.failed_requests} failed"),
            ("wall time", _minutes(sum(facts.stages_s.values())), "start to rollback"),
        ]
    )
    return _PAGE.format(
        world=html.escape(facts.world),
        verdict=html.escape(verdict),
        intro=html.escape(
            f"Simulated users of the {facts.world} assistant ask {facts.base_model}, and most say nothing. They like "
            f"answers of {facts.style}. Nobody tells the learner so; the policy file only takes a little off liked "
            "answers that are longer than the median liked one. Held-out questions are measured greedily and never get "
            "feedback."
        ),
        tiles=tiles,
        learning=_picture(pictures["learning"], "Held-out satisfaction and tokens per answer over feedback"),
        gate=_picture(pictures["gate"], "Each version beside the champion of its time") if facts.versions else "",
        versions=_versions(facts.versions),
        cost=_picture(pictures["cost"], "Cost of an accepted answer") if last.usd_per_accepted else "",
        prices=html.escape(PRICES),
        examples=_examples(facts),
        rollback=_rollback(facts),
        stages=_picture(pictures["stages"], "Wall time by stage"),
        reactions=", ".join(f"{html.escape(name)} {count}" for name, count in facts.reactions.most_common()),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in facts.notes),
        facts=html.escape(
            json.dumps({"seed": facts.seed, "git": facts.git, **facts.machine}, indent=1, ensure_ascii=False)
        ),
    )


def _tiles(items: Iterable[tuple[str, str, str]]) -> str:
    return "".join(
        f"<div class=tile><span>{html.escape(a)}</span><b>{html.escape(b)}</b><small>{html.escape(c)}</small></div>"
        for a, b, c in items
    )


def _picture(shades: dict[str, str], title: str) -> str:
    inside = "".join(f'<div class="{shade}">{svg}</div>' for shade, svg in shades.items())
    return f'<figure role="img" aria-label="{html.escape(title)}">{inside}</figure>'


def _versions(versions: list[VersionFacts]) -> str:
    if not versions:
        return "<p>No version was trained.</p>"

    def row(v: VersionFacts) -> list[str]:
        scores = "" if v.candidate is None else f"{v.candidate:.2f} against {v.champion:.2f}"
        evidence = "" if v.e_value is None else f"{v.e_value:.3g}"
        times = f"{v.train_s:.0f} s, {v.gate_s:.0f} s"
        return [f"v{v.version}", str(v.events), v.outcome, scores, evidence, times, v.because]

    head = ("version", "feedback", "outcome", "private suite", "e-value", "train, gate", "because")
    return _table(head, [row(v) for v in versions])


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _examples(facts: Facts) -> str:
    rows = facts.to_json()["examples"]
    last = facts.curve[-1].version
    return _table(("question", "base model", f"v{last}"), [(r["question"], r["before"], r["after"]) for r in rows])


def _rollback(facts: Facts) -> str:
    back = facts.rollback
    if back is None:
        return "<p>Nothing was promoted, so there was nothing to roll back.</p>"
    says = (
        f"From v{back.from_version} to v{back.to_version} in {back.seconds:.2f} s, without loading anything: "
        f"{back.same} of {len(back.questions)} old answers are back, word for word."
    )
    rows = zip(back.questions, back.before, back.after, strict=True)
    head = ("question", f"v{back.from_version}", f"v{back.to_version}, after the rollback")
    return f"<p>{html.escape(says)}</p>{_table(head, rows)}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Headrace demo: {world}</title>
<style>
:root {{ --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --back: #ffffff; --tile: #f6f8fa }}
.dark {{ display: none }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6edf3; --faint: #9198a1; --line: #3d444d; --back: #0d1117; --tile: #151b23 }}
  .light {{ display: none }} .dark {{ display: block }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto;
  max-width: 820px; padding: 32px 20px 64px }}
h1 {{ font-size: 24px; line-height: 1.25; margin: 0 0 8px }} h2 {{ font-size: 17px; margin: 40px 0 8px }}
p, small, .tile span {{ color: var(--faint) }} figure {{ margin: 12px 0; overflow-x: auto }}
svg {{ overflow: visible }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(145px, 1fr)); gap: 10px; margin: 20px 0 }}
.tile {{ background: var(--tile); border: 1px solid var(--line); border-radius: 8px; display: grid;
  padding: 10px 12px }}
.tile b {{ font-size: 17px; font-variant-numeric: tabular-nums }} .tile span, small {{ font-size: 12px }}
.scroll {{ overflow-x: auto }} table {{ border-collapse: collapse; width: 100%; font-size: 13px }}
td, th {{ text-align: left; vertical-align: top; padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line);
  white-space: pre-wrap; min-width: 52px }} th {{ color: var(--faint); font-weight: 500 }}
pre {{ background: var(--tile); border: 1px solid var(--line); border-radius: 8px; padding: 12px; overflow-x: auto;
  font-size: 12px }}
</style></head><body>
<h1>{verdict}</h1><p>{intro}</p><div class=tiles>{tiles}</div>
<h2>Learning from feedback</h2>{learning}
<h2>Versions and the gate</h2>{gate}{versions}
<h2>Before and after</h2><p>Not a sample: the first held-out questions whose answers users like now and did not like
before; where those are fewer than three, others follow.</p>{examples}
<h2>Rollback</h2>{rollback}
<h2>Cost of an accepted answer</h2>{cost}<p>Computed as {prices}. Training runs on the same machine and is not in it:
its time is below.</p>
<h2>Where the time went</h2>{stages}
<p>What users did: {reactions}. A request counts as failed when the client has tried it six times.</p>{notes}
<h2>Run</h2><pre>{facts}</pre>
</body></html>
"""
