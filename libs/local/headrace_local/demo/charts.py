"""One chart is one pure function from rows to a Vega-Lite spec; colours come from the theme it is rendered with."""

from collections.abc import Iterable, Mapping
from typing import Any

Spec = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]

WIDTH = 660
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
OUTCOMES = ("promoted", "held", "rejected")
_EVENTS = {
    "field": "events",
    "type": "quantitative",
    "title": "feedback events",
    "scale": {"nice": False, "zero": True},
    "axis": {"grid": False, "tickMinStep": 32},
}


def theme(*, dark: bool) -> Spec:
    """A Vega config: quiet axes, one accent, the same for every chart."""
    ink, faint, accent = ("#e6edf3", "#3d444d", "#58a6ff") if dark else ("#1f2328", "#d1d9e0", "#0969da")
    good, middle, bad = ("#3fb950", "#d29922", "#f85149") if dark else ("#1a7f37", "#9a6700", "#cf222e")
    axis = {"labelColor": ink, "titleColor": ink, "gridColor": faint, "domainColor": faint, "tickColor": faint}
    return {
        "background": None,
        "padding": {"left": 20, "right": 20, "top": 8, "bottom": 8},
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": axis | {"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 12, "gridDash": [2, 3]},
        "legend": {"labelColor": ink, "titleColor": ink, "orient": "top", "title": None},
        "title": {"color": ink, "anchor": "start", "fontSize": 13},
        "mark": {"color": accent},
        "text": {"color": ink},
        "rule": {"color": middle},
        "range": {"category": [good, middle, bad], "ordinal": [accent, ink]},
    }


def learning(rows: Rows, target: float) -> Spec:
    """Satisfaction over feedback, above tokens per answer. Rows: events, satisfaction, tokens_per_answer, version."""
    data = [dict(row) | {"label": f"v{row['version']}"} for row in rows]
    satisfaction = {
        "field": "satisfaction",
        "type": "quantitative",
        "title": "held-out satisfaction",
        "scale": {"domain": [0, 1]},
        "axis": {"format": ".0%"},
    }
    tokens = {
        "field": "tokens_per_answer",
        "type": "quantitative",
        "title": "tokens per answer",
        "scale": {"zero": True},
    }
    goal = {
        "data": {"values": [{"target": target}]},
        "mark": {"type": "rule", "strokeDash": [5, 4]},
        "encoding": {"y": {"field": "target", "type": "quantitative"}},
    }
    return {
        "$schema": SCHEMA,
        "data": {"values": data},
        "vconcat": [
            _over_events(satisfaction, 220, extra=[goal], labels=True),
            _over_events(tokens, 150),
        ],
    }


def _over_events(y: Spec, height: int, extra: list[Spec] | None = None, *, labels: bool = False) -> Spec:
    line = {
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {"x": _EVENTS, "y": y},
    }
    points = {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}, "encoding": {"x": _EVENTS, "y": y}}
    text = {
        "mark": {"type": "text", "dy": -11, "fontSize": 11},
        "encoding": {"x": _EVENTS, "y": y, "text": {"field": "label"}},
    }
    return {"width": WIDTH, "height": height, "layer": [*(extra or []), line, points, *([text] if labels else [])]}


def gate(rows: Rows) -> Spec:
    """Each version beside the champion it was compared with. Rows: version, outcome, candidate, champion."""
    data = [dict(row) | {"label": f"v{row['version']}"} for row in rows if row["candidate"] is not None]
    x = {"field": "label", "type": "nominal", "title": "version", "sort": None, "axis": {"labelAngle": 0}}

    def y(field: str) -> Spec:
        return {
            "field": field,
            "type": "quantitative",
            "title": "mean score, private suite",
            "scale": {"domain": [0, 1]},
        }

    colour = {"field": "outcome", "type": "nominal", "scale": {"domain": list(OUTCOMES)}}
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": 200,
        "data": {"values": data},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": x, "y": y("champion"), "y2": {"field": "candidate"}, "color": colour},
            },
            {
                "mark": {"type": "tick", "thickness": 2, "width": 22},
                "encoding": {"x": x, "y": y("champion"), "color": colour},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
                "encoding": {"x": x, "y": y("candidate"), "color": colour},
            },
        ],
    }


def cost(rows: Rows) -> Spec:
    """What an answer that users like costs. Rows: events, usd_per_accepted_answer (None where nothing is liked)."""
    data = [
        {"events": row["events"], "usd": row["usd_per_accepted_answer"] * 1000}
        for row in rows
        if row["usd_per_accepted_answer"] is not None
    ]
    y = {"field": "usd", "type": "quantitative", "title": "USD per 1,000 accepted", "scale": {"zero": True}}
    return {"$schema": SCHEMA, "data": {"values": data}, **_over_events(y, 170)}


def stages(rows: Rows) -> Spec:
    """Where the time went. Rows: stage, seconds."""
    data = [dict(row) | {"label": f"{row['seconds']:.0f} s"} for row in rows]
    y = {"field": "stage", "type": "nominal", "title": None, "sort": None}
    x = {"field": "seconds", "type": "quantitative", "title": "seconds", "axis": {"grid": False}}
    return {
        "$schema": SCHEMA,
        "width": WIDTH - 90,
        "height": {"step": 24},
        "data": {"values": data},
        "layer": [
            {"mark": {"type": "bar", "height": 14, "cornerRadiusEnd": 2}, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 11},
                "encoding": {"x": x, "y": y, "text": {"field": "label"}},
            },
        ],
    }
