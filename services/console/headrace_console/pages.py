"""The page, its living part, the same as JSON, and each chart's spec."""

import dataclasses
from datetime import datetime
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from headrace_console.core import words
from headrace_console.core.charts import charts
from headrace_console.core.overview import Overview, overview
from headrace_console.drawing import Drawing
from headrace_console.store import Store
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected
from headrace_kit.http import error_body, error_response

FRESH_S = 2.0
"""So long one look at the database serves everybody."""


class Pages:
    """HTTP of the console."""

    def __init__(self, database: Database, clock: Clock, drawing: Drawing, refresh_s: float) -> None:
        self._database = database
        self._clock = clock
        self._drawing = drawing
        self._refresh_s = refresh_s
        self._looked: dict[str, tuple[float, Overview]] = {}
        self._jinja = Environment(
            loader=PackageLoader("headrace_console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.globals["words"] = words

    def routes(self) -> list[Route]:
        return [
            Route("/", self.page),
            Route("/overview", self.fragment),
            Route("/api/overview", self.document),
            Route("/charts/{name}.json", self.chart),
        ]

    async def look(self, request: Request) -> Overview:
        """The overview that a request asks for. Raises Rejected for a policy that nobody knows."""
        wanted = request.query_params.get("policy", "")
        looked_at, known = self._looked.get(wanted, (float("-inf"), None))
        if known is not None and self._clock.monotonic() - looked_at < FRESH_S:
            return known
        async with self._database.begin() as session:
            store = Store(session)
            policies = await store.policies()
            if wanted and wanted not in policies:
                raise Rejected("unknown_policy", f"no policy is named {wanted[:100]!r}", "policy", 404)
            facts = await store.facts(wanted or (policies[0] if policies else None))
        page = overview(facts, self._clock.now())
        self._looked[wanted] = (self._clock.monotonic(), page)
        return page

    async def _rendered(self, template: str, request: Request) -> Response:
        page = await self.look(request)
        pictures = {name: await self._drawing.svg(name, spec) for name, spec in charts(page).items()}
        now = self._clock.now()
        html = self._jinja.get_template(template).render(
            page=page,
            charts=pictures,
            now=now,
            refresh_s=self._refresh_s,
            when=lambda then: When(then, now),
        )
        return HTMLResponse(html)

    async def page(self, request: Request) -> Response:
        return await self._rendered("page.html", request)

    async def fragment(self, request: Request) -> Response:
        return await self._rendered("overview.html", request)

    async def document(self, request: Request) -> Response:
        page = await self.look(request)
        return Response(orjson.dumps(dataclasses.asdict(page)), media_type="application/json")

    async def chart(self, request: Request) -> Response:
        """A chart's Vega-Lite spec, data included, for a notebook or a report."""
        drawn: dict[str, Any] = charts(await self.look(request))
        name = request.path_params["name"]
        if name not in drawn:
            message = f"there is no chart {name[:100]!r} now; there are: {', '.join(drawn) or 'none'}"
            return JSONResponse(error_body("unknown_chart", message, "name"), 404)
        return JSONResponse(drawn[name])

    async def on_unavailable(self, request: Request, error: Exception) -> Response:
        """The database is away: JSON where JSON was asked for, else a page that asks again by itself."""
        assert isinstance(error, Exception)
        if request.url.path.startswith(("/api/", "/charts/")):
            return error_response(error)  # type: ignore[arg-type]
        html = self._jinja.get_template("unavailable.html").render(refresh_s=self._refresh_s)
        return HTMLResponse(html, 503, {"Retry-After": "2"})


class When:
    """A time for a template: relative, with the absolute one in its title."""

    def __init__(self, then: datetime | None, now: datetime) -> None:
        self.ago = words.ago(then, now)
        self.absolute = words.absolute(then)
        self.machine = then.isoformat() if then else ""
