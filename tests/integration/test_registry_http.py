"""Policies and keys over HTTP, on a real PostgreSQL."""

import asyncio

import pytest
from registry_world import SPEC, registry, until

from headrace_kit.database import Database
from headrace_schemas import KeyChanged, PolicyChanged, RouteChanged
from headrace_schemas.keys import parse_key, proves


@pytest.fixture
async def world(database_url):
    async with registry(database_url) as world:
        yield world


async def test_the_first_file_makes_a_route_to_the_base_model_and_the_same_file_changes_nothing(world):
    first = await world.apply()
    assert first.status_code == 201 and first.json()["changed"] is True
    route = await until(world.newest_route)
    assert (route.epoch, route.champion.version, route.champion.engine_model) == (1, 0, "tiny")
    assert route.previous is None and route.load == ()
    again = await world.apply()
    assert again.status_code == 200 and again.json()["changed"] is False and again.json()["revision"] == 1
    changed = await world.apply(gate={"suite": "private", "promote": "manual"})
    assert changed.json()["revision"] == 2
    policies = await until(lambda: len(p := world.published(PolicyChanged)) == 2 and p)
    assert [p.revision for p in policies] == [1, 2] and policies[0].spec["gate"]["suite"] == "private"
    assert len(world.published(RouteChanged)) == 1
    [row] = (await world.http.get("/v1/policies")).json()["data"]
    assert (row["policy"], row["champion"], row["epoch"], row["promote"]) == ("support", 0, 1, "manual")
    whole = (await world.http.get("/v1/policies/support")).json()
    assert whole["digest"] == changed.json()["digest"] == policies[1].digest


async def test_a_new_policy_applied_twice_at_once_is_one_policy(world):
    answers = await asyncio.gather(*(world.apply() for _ in range(4)))
    assert all(a.status_code in (200, 201, 409) for a in answers), [a.text for a in answers]
    await until(world.newest_route)
    assert len(world.published(PolicyChanged)) == 1


async def test_the_base_model_may_change_until_a_version_stands_on_it(world):
    await world.apply()
    assert (await world.apply(base_model="larger")).status_code == 200
    route = await until(lambda: (r := world.newest_route()) and r.epoch == 2 and r)
    assert route.base_model == "larger" and route.champion.engine_model == "larger"
    await world.apply()
    await world.say(world.checkpoint(1))
    await world.became(1, "registered")
    refused = await world.apply(base_model="larger")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "base_model_fixed"
    assert refused.json()["error"]["param"] == "base_model"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"gate": {"siute": "x"}}, "gate.suite"),
        ({"polcy": 1}, "polcy"),
        ({"policy": "other"}, "policy"),
        ({"reward": {"parts": []}}, "reward.parts"),
    ],
)
async def test_a_bad_file_names_the_field_and_changes_nothing(world, change, param):
    answer = await world.apply(**change)
    assert answer.status_code == 422 and answer.json()["error"]["param"] == param, answer.text
    assert (await world.http.get("/v1/policies")).json()["data"] == []


async def test_what_does_not_exist_is_404_with_a_sentence(world):
    for path in ("/v1/policies/x", "/v1/policies/x/route", "/v1/versions/x/1", "/v1/nothing"):
        answer = await world.http.get(path)
        assert answer.status_code == 404 and answer.json()["error"]["message"], path
    await world.apply()
    assert (await world.http.get("/v1/versions/support/v9")).status_code == 404
    assert (await world.http.get("/v1/versions/support/nine")).status_code == 404
    assert (await world.http.get("/v1/versions/support/champion")).json()["version"] == 0


async def test_without_the_admin_token_nothing_is_told(world):
    answer = await world.http.get("/v1/policies", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert (await world.http.get("/health/live", headers={"Authorization": ""})).status_code == 200


# ---- keys
async def test_a_key_is_shown_once_and_others_get_only_its_hash(world):
    made = await world.http.post("/v1/keys", json={"name": "app", "scopes": ["inference", "feedback"]})
    assert made.status_code == 201
    key = parse_key(made.json()["secret"])
    [event] = await until(lambda: world.published(KeyChanged))
    assert event.prefix == key.prefix and proves(key.secret, event.salt, event.hash)
    assert key.secret not in event.model_dump_json()
    assert event.scopes == ("feedback", "inference")
    listed = (await world.http.get("/v1/keys")).text
    assert key.prefix in listed and key.secret not in listed and event.hash not in listed


async def test_a_key_that_was_made_elsewhere_is_taken_over_once(world):
    body = {"name": "local", "scopes": ["inference"], "secret": "hr_local123_" + "s" * 43}
    answers = await asyncio.gather(*(world.http.post("/v1/keys", json=body) for _ in range(3)))
    assert sorted(a.status_code for a in answers) == [200, 200, 201]
    await until(lambda: world.published(KeyChanged))
    assert len(world.published(KeyChanged)) == 1
    other = await world.http.post("/v1/keys", json=body | {"secret": "hr_local123_" + "x" * 43})
    assert other.status_code == 409 and other.json()["error"]["code"] == "key_taken"
    bad = await world.http.post("/v1/keys", json=body | {"secret": "sk-123"})
    assert bad.status_code == 422 and bad.json()["error"]["param"] == "secret"


async def test_a_revoked_key_is_told_to_everyone_once_and_does_not_come_back(world):
    made = (await world.http.post("/v1/keys", json={"name": "app", "scopes": ["inference"]})).json()
    for _ in range(2):
        answer = await world.http.delete(f"/v1/keys/{made['prefix']}")
        assert answer.status_code == 200 and answer.json()["revoked"] is True
    events = await until(lambda: len(e := world.published(KeyChanged)) == 2 and e)
    assert [(e.revision, e.revoked) for e in events] == [(1, False), (2, True)]
    again = await world.http.post("/v1/keys", json={"name": "app", "scopes": ["inference"], "secret": made["secret"]})
    assert again.status_code == 409
    assert (await world.http.delete("/v1/keys/nothing1")).status_code == 404


async def test_an_unknown_scope_is_refused(world):
    answer = await world.http.post("/v1/keys", json={"name": "app", "scopes": ["root"]})
    assert answer.status_code == 422 and answer.json()["error"]["param"] == "scopes.0"


# ---- the schema
async def test_migrations_make_exactly_the_tables_of_the_code(database_url):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from headrace_kit.migrate import upgrade
    from headrace_registry.tables import METADATA

    await upgrade(database_url, "headrace_registry")
    await upgrade(database_url, "headrace_registry")
    database = Database(database_url, "registry")
    async with database.engine.connect() as connection:
        differences = await connection.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), METADATA))
    await database.close()
    assert [d for d in differences if "alembic_version" not in str(d)] == []


def test_the_specification_of_the_tests_is_a_policy():
    from headrace_schemas import PolicySpec

    assert PolicySpec.model_validate(SPEC).policy == "support"
