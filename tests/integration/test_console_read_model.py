"""The console on a real PostgreSQL: whatever the order and however often, the page is the same."""

import asyncio
import contextlib
import random

import httpx2
import pytest
from console_story import Story
from pydantic import SecretStr

from headrace_console.app import build
from headrace_console.settings import ConsoleSettings
from headrace_kit.migrate import upgrade
from headrace_kit.records import Outgoing, encode
from headrace_kit.settings import DatabaseSettings, KafkaSettings, PlatformSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import FakeClock, MemoryBroker, MemoryBus
from headrace_schemas import topic_of


def platform(url):
    return PlatformSettings(
        kafka=KafkaSettings(bootstrap="none:1"),
        topics=TopicSettings(),
        database=DatabaseSettings(url=SecretStr(url)),
        process=ProcessSettings(admin_token=SecretStr("x" * 24)),
    )


def record(event):
    return encode(event, topic=topic_of(type(event)).name(), source="test", recorded_at=event.occurred_at)


@contextlib.asynccontextmanager
async def console(url, clock=None, **settings):
    """A running console and a browser without a screen."""
    await upgrade(url, "headrace_console")
    broker = MemoryBroker()
    service = build(ConsoleSettings(**settings), platform(url), bus=MemoryBus(broker), clock=clock)
    await service.start()
    transport = httpx2.ASGITransport(app=service.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        try:
            yield broker, service, browser
        finally:
            await service.stop()


async def caught_up(broker, service):
    """Until every record of the broker is behind the console."""
    for _ in range(600):
        behind = [
            topic
            for (topic, number), log in broker.logs.items()
            if not topic.endswith(".dlq") and broker.committed.get((f"console.{topic}", (topic, number)), 0) < len(log)
        ]
        if not behind:
            return
        assert service.alive() is None
        await asyncio.sleep(0.05)
    raise AssertionError(f"still behind on {behind}")


@pytest.fixture
def events():
    return Story().tell()


async def page_of(url, events, clock):
    async with console(url, clock) as (broker, service, browser):
        await broker.append([record(e) for e in events])
        await caught_up(broker, service)
        answer = await browser.get("/api/overview")
        assert answer.status_code == 200
        return answer.json()


async def test_every_event_twice_and_out_of_order_gives_the_same_page(postgres_url, database_url, events):
    import asyncpg
    from sqlalchemy.engine import make_url

    clock = FakeClock(events[-1].occurred_at)
    in_order = await page_of(database_url, events, clock)
    assert in_order["champion"] == 2
    assert [s["count"] for s in in_order["stations"]][3:5] == [4, 3]
    admin = await asyncpg.connect(postgres_url)
    for seed in (1, 2):
        shuffled = events + events
        random.Random(seed).shuffle(shuffled)
        name = make_url(database_url).database + str(seed)
        await admin.execute(f'CREATE DATABASE "{name}"')
        url = make_url(database_url).set(database=name).render_as_string(hide_password=False)
        assert await page_of(url, shuffled, clock) == in_order
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await admin.close()


async def test_a_page_with_data_names_every_number_with_its_n(database_url, events):
    clock = FakeClock(events[-1].occurred_at)
    async with console(database_url, clock) as (broker, service, browser):
        await broker.append([record(e) for e in events])
        await caught_up(broker, service)
        html = (await browser.get("/")).text
        document = (await browser.get("/api/overview")).json()
        for line in document["versions"]:
            for tally in (line["reward"], line["answers"]):
                if tally and tally["n"]:
                    assert f"n={tally['n']}" in html
        assert html.count("<svg") == 4
        assert html.count("data-chart=") == 4
        assert "v2 answers" in html
        assert "headrace explain support@v2" in html
        assert "proved here: v2, v4" in html
        for chart in ("reward", "satisfaction", "tokens"):
            assert (await browser.get(f"/charts/{chart}.json")).json()["$schema"].endswith("v6.json")
        assert (await browser.get("/charts/x.json")).status_code == 404
        assert (await browser.get("/?policy=nobody")).status_code == 404


async def test_an_empty_console_names_the_next_command(database_url):
    async with console(database_url) as (_, _, browser):
        html = (await browser.get("/")).text
        assert "No policy yet" in html
        assert "headrace apply -f policy.yaml" in html
        assert "<svg" not in html


async def test_what_users_wrote_is_text_and_nothing_else(database_url):
    evil = "<script>alert(1)</script>\" onload='x' {{7*7}} \x00 </p>"
    story = Story()
    story.applied()
    story.route(champion=0)
    story.observed()
    given = story.inference(0, 9, evil, evil, correlation_id="a<b>")
    story.feedback(given, evil[:60], evil, comment=evil)
    story.feedback(given, "accepted", True, correlation_id="a<b>")
    story.feedback(given, "accepted", True, correlation_id="a\x00b")  # an id that no database keeps
    story.feedback(given, "demonstration", evil, episode_id=given.episode_id)
    story.feedback(given, "accepted", False, inference_id="never<b>arrives")
    async with console(database_url, FakeClock(story.at)) as (broker, service, browser):
        await broker.append([record(e) for e in story.events])
        await caught_up(broker, service)
        for _ in range(100):
            dead = [r for t in broker.logs if t[0].endswith(".dlq") for r in broker.logs[t]]
            if dead:
                break
            await asyncio.sleep(0.05)
        assert [r.header("headrace-dlq-code") for r in dead] == ["nul_character"]
        answer = await browser.get("/")
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert(1)" in answer.text
        assert "a&lt;b&gt;" not in answer.text  # it is known: the answer stands there instead
        assert "never&lt;b&gt;arrives, which has not arrived yet" in answer.text
        assert len((await browser.get("/api/overview")).json()["recent"]) == 4


async def test_dead_letters_are_counted_once_with_their_reason(database_url, events):
    async with console(database_url, dead_letters_every_s=0.2) as (broker, service, browser):
        await broker.append([Outgoing("headrace.inference-completed.v1", b"k", b"{", ())])
        await caught_up(broker, service)
        for _ in range(100):
            letters = (await browser.get("/api/overview")).json()["dead_letters"]
            if letters:
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        assert [(x["topic"], x["n"], x["code"]) for x in letters] == [
            ("headrace.inference-completed.v1", 1, "not_json")
        ]


async def test_a_foreign_host_name_is_refused_and_the_answer_may_load_nothing_foreign(database_url):
    async with console(database_url, allowed_hosts="Console.example.com") as (_, _, browser):
        assert (await browser.get("/", headers={"host": "evil.example"})).status_code == 421
        assert (await browser.get("/", headers={"host": "console.example.com:8443"})).status_code == 200
        assert (await browser.get("/", headers={"host": "[::1]:80"})).status_code == 200
        answer = await browser.get("/")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text
        assert (await browser.get("/health/live", headers={"host": "10.0.0.7"})).status_code == 200


async def test_a_token_is_asked_for_once_and_kept_in_a_cookie(database_url):
    token = "t" * 20
    async with console(database_url, token=SecretStr(token)) as (_, _, browser):
        assert (await browser.get("/")).status_code == 401
        assert (await browser.get("/api/overview?token=wrong")).status_code == 401
        assert (await browser.get("/static/console.css")).status_code == 401
        login = await browser.get(f"/?policy=support&token={token}")
        assert login.status_code == 303
        assert login.headers["location"] == "/?policy=support"
        assert "httponly" in login.headers["set-cookie"].lower()
        assert token not in login.headers["set-cookie"]
        assert (await browser.get("/")).status_code == 200
        browser.cookies.clear()
        bearer = {"authorization": f"Bearer {token}"}
        assert (await browser.get("/api/overview", headers=bearer)).status_code == 200


async def test_the_page_says_so_when_the_database_is_away():
    service = build(ConsoleSettings(), platform("postgresql://nobody@127.0.0.1:1/none"), bus=MemoryBus(MemoryBroker()))
    transport = httpx2.ASGITransport(app=service.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as browser:
        page = await browser.get("/")
        assert page.status_code == 503
        assert "The read model is away" in page.text
        assert (await browser.get("/api/overview")).json()["error"]["code"] == "unavailable"
