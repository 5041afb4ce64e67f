"""What a private suite says is nowhere but in memory and sealed: no topic, no log, no table, no answer of ours."""

import pytest
from evaluation_world import GOOD, SECRET, SUITE, evaluation
from registry_world import until
from sqlalchemy import text
from starlette.responses import JSONResponse

from headrace_kit.database import Database


@pytest.fixture
async def world(database_url):
    async with evaluation(database_url) as world:
        yield world


async def everything_in_postgres(url: str) -> str:
    database = Database(url, "evaluation")
    found = []
    async with database.begin() as session:
        query = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        for schema, table in await session.execute(text(query)):
            if schema not in ("pg_catalog", "information_schema"):
                rows = await session.execute(text(f'SELECT t::text FROM "{schema}"."{table}" t'))
                found += [row[0] for row in rows]
    await database.close()
    return "\n".join(found)


def holds(haystack: str | bytes) -> bool:
    """The secret as it is, and as bytea shows it."""
    if isinstance(haystack, bytes):
        return SECRET.encode() in haystack
    return SECRET in haystack or SECRET.encode().hex() in haystack


async def test_the_contents_of_a_suite_are_in_no_topic_no_log_no_table_and_no_answer(
    world, database_url, capfd, caplog
):
    with caplog.at_level("DEBUG"):
        refusal = JSONResponse({"error": {"code": SECRET, "message": SECRET}}, 400)
        world.gateway.trouble = lambda version, prompt: refusal if "item 3?" in prompt else None
        await world.everything(1)

        async def reported() -> bool:
            world.clock.move(1)
            await world.say(world.observed(1))
            return bool(world.reports())

        await until(reported)
        answers = [
            (await world.http.get(path)).text
            for path in ("/v1/suites", "/v1/suites/private", "/v1/suites/private/access", "/v1/evaluations", "/metrics")
        ]
        answers.append((await world.push()).text)
        broken = SUITE | {"cases": [{"id": SECRET, "prompt": SECRET, "rule": {"max_words": SECRET}}]}
        refused = await world.push(broken)
        assert refused.status_code == 422 and refused.json()["error"]["param"] == "cases.0.rule.max_words"
        answers.append(refused.text)
        answers.append((await world.push(SUITE | {"cases": [SUITE["cases"][0] | {"rule": {"max_words": 1}}] * 2})).text)
    await world.stop()
    out, err = capfd.readouterr()
    stored = await everything_in_postgres(database_url)
    await world.start()

    assert any(SECRET in prompt for _, prompt in world.gateway.asked), "the test asks nothing secret"
    assert "evaluation" in out
    assert "1 of 24 cases" in stored and (await world.http.get("/v1/suites/private")).json()["digest"] in stored
    for name, text_ in {"stdout": out, "stderr": err, "logging": caplog.text, "postgres": stored}.items():
        assert not holds(text_), name
        assert GOOD not in text_, name
    for answer in answers:
        assert not holds(answer), answer
    for log in world.broker.logs.values():
        for record in log:
            assert not holds(record.value or b"") and not any(holds(v) for _, v in record.headers)


async def test_who_pushed_and_what_opened_a_suite_is_kept(world):
    await world.everything(1)
    await world.report()
    rows = (await world.http.get("/v1/suites/private/access")).json()["data"]
    assert [(r["by"], r["action"]) for r in rows] == [("evaluation", "opened"), ("ada", "pushed")]
    assert rows[0]["why"] == "v1 of support against v0"


async def test_a_suite_is_pushed_once_and_its_change_is_told(world):
    first = await world.push()
    assert first.status_code == 201 and first.json()["changed"] is True and first.json()["updated_by"] == "ada"
    again = await world.push()
    assert again.status_code == 200 and again.json()["changed"] is False
    assert again.json()["digest"] == first.json()["digest"]
    other = await world.push(SUITE | {"max_tokens": 33})
    assert other.json()["changed"] is True and other.json()["digest"] != first.json()["digest"]
    assert (await world.http.get("/v1/suites/nothing")).status_code == 404


@pytest.mark.parametrize(
    ("suite", "param"),
    [
        ({"cases": []}, "cases"),
        ({"cases": SUITE["cases"], "max_tokens": 0}, "max_tokens"),
        ({"cases": [{"id": "1", "prompt": "x", "rule": {"matches": "(a"}}]}, "cases.0.rule.matches"),
        ({"cases": [{"id": "1", "prompt": "x", "rule": {"max_wrds": 1}}]}, "cases.0.rule.max_wrds"),
        ({"cases": [{"id": "1", "rule": {"max_words": 1}}]}, "cases.0"),
        ({"cases": SUITE["cases"], "extra": 1}, "extra"),
    ],
)
async def test_a_bad_suite_names_the_field_and_changes_nothing(world, suite, param):
    answer = await world.push(suite)
    assert answer.status_code == 422 and answer.json()["error"]["param"] == param, answer.text
    assert (await world.http.get("/v1/suites")).json()["data"] == []


async def test_a_suite_that_was_sealed_with_another_key_is_a_problem_of_ours_and_holds_nobody(database_url):
    async with evaluation(database_url) as world:
        await world.push()
        await world.stop()
        from headrace_evaluation.vault import Vault

        await world.start()
        other = Vault(b"x" * 32)
        database = Database(database_url, "evaluation")
        async with database.begin() as session:
            from headrace_evaluation.core.suite import Suite

            sealed = other.seal("private", Suite.model_validate(SUITE))
            await session.execute(text("UPDATE suite SET sealed = :s"), {"s": sealed})
        await database.close()
        await world.say(world.policy(), world.route(1), world.registered(1), world.observed(1))

        async def pending() -> bool:
            return any("EVALUATION_KEY" in p["because"] for p in (await world.told())["pending"])

        await until(pending)
        assert world.reports() == [] and world.service.alive() is None


async def test_migrations_make_exactly_the_tables_of_the_code(database_url):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from headrace_evaluation.tables import METADATA
    from headrace_kit.migrate import upgrade

    await upgrade(database_url, "headrace_evaluation")
    database = Database(database_url, "evaluation")
    async with database.engine.connect() as connection:
        differences = await connection.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), METADATA))
    await database.close()
    assert [d for d in differences if "alembic_version" not in str(d)] == []
