"""Vega-Lite specs to SVG on the server, so that the page needs no script for its pictures and asks nobody for fonts.

A spec's colours become the page's CSS variables, which follow light and dark.
"""

import asyncio
import json
import re
from collections import OrderedDict
from typing import Any

from markupsafe import Markup

from headrace_console.core import charts

VARIABLES = {
    charts.INK: "--ink",
    charts.MUTED: "--muted",
    charts.GRID: "--line",
    charts.WATER: "--water",
    charts.STILL: "--still",
    charts.BACK: "--bad",
}
KEPT = 64
_COLOUR = re.compile("|".join(VARIABLES))
_CLIP = re.compile(r"\bclip(\d+)")
_SIZE = re.compile(r'<svg ([^>]*?)\swidth="([\d.]+)" height="([\d.]+)"')


class Drawing:
    """Draws, and remembers what it drew: a page that has not changed costs nothing."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[str, Markup] = OrderedDict()
        self._turn = asyncio.Lock()

    async def svg(self, name: str, spec: dict[str, Any]) -> Markup:
        """The chart as markup for the page; `name` keeps the ids inside it apart from other charts'."""
        key = f"{name} {json.dumps(spec, sort_keys=True)}"
        async with self._turn:
            if key not in self._drawn:
                self._drawn[key] = await asyncio.to_thread(draw, name, spec)
                while len(self._drawn) > KEPT:
                    self._drawn.popitem(last=False)
            self._drawn.move_to_end(key)
            return self._drawn[key]


def draw(name: str, spec: dict[str, Any]) -> Markup:
    """Takes 30 to 120 ms; the first one a second."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec, vl_version="6.4", allowed_base_urls=[])
    svg = _COLOUR.sub(lambda found: f"var({VARIABLES[found[0]]})", svg)
    svg = _CLIP.sub(rf"{name}-clip\1", svg)
    # Markup is safe here: vl-convert escapes texts, and what users wrote is in no chart.
    return Markup(_SIZE.sub(r'<svg \1 data-chart="' + name + '"', svg, count=1))  # noqa: S704
