"""The page in a real browser: Debian's Chromium without a screen. Skipped where there is none."""

import asyncio
import re
import shutil
import socket

import pytest
import uvicorn
from console_story import Story
from test_console_read_model import caught_up, console, record

from headrace_kit.testing import FakeClock

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-sync --no-first-run --enable-logging=stderr --virtual-time-budget=8000 --dump-dom".split()


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")
async def test_the_page_renews_itself_without_an_error_or_a_foreign_request(database_url, tmp_path):
    events = Story().tell()
    async with console(database_url, FakeClock(events[-1].occurred_at)) as (broker, service, _):
        await broker.append([record(e) for e in events])
        await caught_up(broker, service)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(service.app, log_config=None))
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            port = listener.getsockname()[1]
            browser = await asyncio.create_subprocess_exec(
                CHROMIUM,
                *FLAGS,
                f"--user-data-dir={tmp_path}",
                "--window-size=360,800",
                f"http://127.0.0.1:{port}/",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            dom, log = await asyncio.wait_for(browser.communicate(), 60)
            server.should_exit = True
            await serving
    page = dom.decode()
    assert not [line for line in log.decode().splitlines() if "CONSOLE" in line]
    assert "</p></main>" in page  # as htmx leaves it, not as the server wrote it
    for chart, marks in (("satisfaction", 2), ("tokens", 2)):
        svg = re.search(rf'<svg[^>]*data-chart="{chart}".*?</svg>', page, re.DOTALL)[0]
        assert svg.count('aria-roledescription="bar"') == marks
    assert page.count('aria-roledescription="point"') > 40
