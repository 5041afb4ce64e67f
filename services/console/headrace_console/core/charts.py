"""One chart is one function from rows to a Vega-Lite spec: it can be looked at as data, drawn to SVG, or pasted into a
notebook. Each says its n.
"""

import math
from collections.abc import Sequence
from typing import Any

from headrace_console.core.facts import Scored, Tally
from headrace_console.core.overview import Change, Overview, VersionLine
from headrace_console.core.words import absolute, name_of, plural, tokens

Spec = dict[str, Any]

INK, MUTED, GRID, WATER, STILL, BACK = "#1d2a31", "#66757d", "#e2ddd2", "#1f7a8d", "#a9c3ca", "#b7483c"
"""Text, quiet text, grid, the champion and curves, other bars, rollbacks. The page maps them to its own colours."""
SHOWN = 12
"""Versions in a chart of bars."""
POINTS = 36
"""Points on the curve of the reward."""
WIDTH, HEIGHT = 400, 170


def charts(page: Overview) -> dict[str, Spec]:
    """Every chart of the page for which there is something to draw."""
    lines = _chosen(page.versions)
    drawn = {
        "reward": reward_over_answers(page.series, page.changes, 2 * WIDTH + 60),
        "reward-narrow": reward_over_answers(page.series, page.changes, WIDTH),
        "satisfaction": reward_by_version(lines),
        "tokens": tokens_by_version(lines),
    }
    return {name: spec for name, spec in drawn.items() if spec["data"]["values"]}


def reward_over_answers(series: Sequence[Scored], changes: Sequence[Change], width: int) -> Spec:
    """Mean reward of groups of answers in the order in which they were scored, and where the champion changed."""
    scored = [(s.at, s.reward) for s in series if s.reward is not None]
    size = max(1, math.ceil(len(scored) / POINTS))
    points = []
    for start in range(0, len(scored), size):
        group = scored[start : start + size]
        points.append(
            {
                "answer": start + len(group),
                "reward": round(sum(r for _, r in group) / len(group), 4),
                "n": len(group),
                "until": absolute(group[-1][0]),
            }
        )
    rules = [
        {
            "answer": sum(1 for at, _ in scored if at <= change.at),
            "label": name_of(change.version),
            "back": change.back,
        }
        for change in changes
        if scored and change.at >= scored[0][0]
    ][-SHOWN:]
    x = {
        "field": "answer",
        "type": "quantitative",
        "scale": {"domain": [0, max(len(scored), 1)], "nice": False},
        "axis": {"title": f"scored answers ({_each(size)})", "tickCount": 5, "format": "d", "grid": False},
    }
    y = {
        "field": "reward",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"title": None, "values": _HALVES, "format": ".1f"},
    }
    colour = {"condition": {"test": "datum.back", "value": BACK}, "value": MUTED}
    spec = _framed(f"Mean reward over {plural(len(scored), 'scored answer')}", points, width)
    spec["layer"] = [
        {
            "data": {"values": rules},
            "mark": {"type": "rule", "strokeDash": [3, 3], "strokeWidth": 1},
            "encoding": {"x": x, "color": colour},
        },
        {
            "data": {"values": rules},
            "mark": {"type": "text", "align": "left", "dx": 4, "baseline": "top", "fontSize": 11, "fontWeight": 600},
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "label"}, "color": colour},
        },
        {
            "mark": {"type": "area", "color": WATER, "opacity": 0.12, "interpolate": "monotone"},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "line", "color": WATER, "strokeWidth": 2, "interpolate": "monotone"},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 22, "color": WATER, "opacity": 1},
            "encoding": {"x": x, "y": y, "description": {"field": "until"}},
        },
    ]
    return spec


def reward_by_version(lines: Sequence[VersionLine]) -> Spec:
    """Mean reward that users' feedback gave each version, with a 95 % interval of the mean."""
    return _bars(
        "Mean reward by version",
        [(line, line.reward) for line in lines],
        y={"scale": {"domain": [0, 1]}, "axis": {"title": None, "values": _HALVES, "format": ".1f"}},
        text=lambda mean: f"{mean:.2f}",
        highest=1.0,
    )


def tokens_by_version(lines: Sequence[VersionLine]) -> Spec:
    """Mean tokens of a whole answer by version, with a 95 % interval of the mean."""
    return _bars(
        "Tokens per answer by version",
        [(line, line.answers) for line in lines],
        y={"scale": {"zero": True, "nice": True}, "axis": {"title": None, "tickCount": 4}},
        text=tokens,
        highest=math.inf,
    )


_HALVES = [0, 0.5, 1]


def _bars(title: str, found: Sequence[tuple[VersionLine, Tally | None]], y: Spec, text: Any, highest: float) -> Spec:
    rows = []
    for line, tally in found:
        if tally is None or not tally.n or tally.mean is None:
            continue
        half = 1.96 * tally.spread / math.sqrt(tally.n) if tally.spread is not None and tally.n > 1 else 0.0
        rows.append(
            {
                "version": f"{name_of(line.version)}|n={tally.n}",
                "mean": round(tally.mean, 4),
                "low": round(max(0.0, tally.mean - half), 4),
                "high": round(min(highest, tally.mean + half), 4),
                "text": text(tally.mean),
                "champion": line.role == "champion",
            }
        )
    x = {
        "field": "version",
        "type": "nominal",
        "sort": None,
        "scale": {"paddingInner": 0.35, "paddingOuter": 0.3},
        "axis": {"title": None, "labelAngle": 0, "labelExpr": "split(datum.label, '|')", "ticks": False, "grid": False},
    }
    spec = _framed(title, rows)
    spec["layer"] = [
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 3},
            "encoding": {
                "x": x,
                "y": {"field": "mean", "type": "quantitative", **y},
                "color": {"condition": {"test": "datum.champion", "value": WATER}, "value": STILL},
            },
        },
        {
            "mark": {"type": "rule", "color": INK, "opacity": 0.55, "strokeWidth": 1.5},
            "encoding": {"x": x, "y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "text", "dy": -5, "baseline": "bottom", "fontWeight": 600, "color": INK},
            "encoding": {"x": x, "y": {"field": "high", "type": "quantitative"}, "text": {"field": "text"}},
        },
    ]
    return spec


def _chosen(versions: Sequence[VersionLine]) -> list[VersionLine]:
    """Oldest first: the base model, the champion, and the newest others that have something to show."""
    told = [v for v in versions if (v.reward and v.reward.n) or (v.answers and v.answers.n)]
    keep = [v for v in told if v.version == 0 or v.role == "champion"]
    rest = [v for v in told if v not in keep][: SHOWN - len(keep)]
    return sorted(keep + rest, key=lambda v: v.version)


def _each(size: int) -> str:
    return "each point one answer" if size == 1 else f"each point the mean of {size}"


def _framed(title: str, rows: list[dict[str, Any]], width: int = WIDTH) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": title,
        "width": width,
        "height": HEIGHT,
        "background": None,
        "padding": {"left": 2, "right": 8, "top": 14, "bottom": 2},
        "data": {"values": rows},
        "config": {
            "font": "sans-serif",
            "view": {"stroke": None},
            "text": {"fontSize": 12, "color": INK},
            "axis": {
                "labelColor": MUTED,
                "titleColor": MUTED,
                "titleFontWeight": "normal",
                "labelFontSize": 12,
                "titleFontSize": 12,
                "gridColor": GRID,
                "domainColor": GRID,
                "tickColor": GRID,
                "labelPadding": 6,
                "titlePadding": 8,
            },
            "axisY": {"domain": False, "ticks": False},
        },
    }
