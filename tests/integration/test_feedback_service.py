"""The feedback service on a real PostgreSQL: the contract, its idempotency, and what a crash may not lose."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from feedback_parts import NOW, an_inference, client, platform, started, until
from headrace_feedback.app import build
from headrace_feedback.settings import FeedbackSettings
from headrace_kit.errors import Retryable
from headrace_kit.migrate import upgrade
from headrace_kit.records import decode
from headrace_kit.testing import FakeClock, MemoryBroker, MemoryBus
from headrace_schemas import FeedbackRecorded

TOPIC = "headrace.feedback-recorded.v1"


@pytest.fixture
async def broker():
    return MemoryBroker()


@pytest.fixture
async def database(database_url):
    await upgrade(database_url, "headrace_feedback")
    return database_url


@pytest.fixture
async def service(database, broker):
    built = build(FeedbackSettings(), platform(database), bus=MemoryBus(broker), clock=FakeClock(NOW))
    async with started(built):
        yield built


@pytest.fixture
async def http(service):
    async with client(service) as answers:
        yield answers


def published(broker) -> list[FeedbackRecorded]:
    return [decode(record, FeedbackRecorded) for record in broker.all(TOPIC)]


def thumb(**given) -> dict:
    return {"inference_id": an_inference().inference_id, "metric_name": "accepted", "value": True, **given}


async def test_feedback_is_accepted_and_published_with_what_was_said(http, broker):
    body = thumb(comment="short and kind", source={"kind": "human", "id": "u_1"}, tags={"surface": "editor"})
    answer = await http.post("/v1/feedback", json=body, headers={"x-headrace-project": "shop"})
    assert answer.status_code == 202
    assert answer.json() == {"object": "feedback", "id": answer.json()["id"], "status": "accepted"}
    (event,) = await until(lambda: published(broker))
    assert event.feedback_id == answer.json()["id"]
    assert (event.project, event.value, event.comment, event.revision) == ("shop", True, "short and kind", 1)
    assert event.source.id == "u_1" and event.tags == {"surface": "editor"} and event.recorded_at == NOW
    assert broker.all(TOPIC)[0].key.decode().startswith("ep-")


async def test_an_id_sent_twice_counts_once_and_with_another_body_is_a_conflict(http, broker):
    body = thumb(id="fb_once")
    assert (await http.post("/v1/feedback", json=body)).status_code == 202
    again = await http.post("/v1/feedback", json=dict(reversed(body.items())))
    assert (again.status_code, again.json()["status"]) == (200, "accepted")
    other = await http.post("/v1/feedback", json=body | {"value": False})
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "conflict" and other.json()["error"]["param"] == "id"
    assert other.headers["x-should-retry"] == "false"
    elsewhere = await http.post("/v1/feedback", json=body | {"value": False}, headers={"x-headrace-project": "other"})
    assert elsewhere.status_code == 202, "ids belong to a project"
    await until(lambda: len(published(broker)) == 2)


async def test_one_id_sent_by_many_at_once_becomes_one_event(http, broker):
    body = thumb(id="fb_race")
    answers = await asyncio.gather(*(http.post("/v1/feedback", json=body) for _ in range(12)))
    assert {a.status_code for a in answers} <= {200, 202}
    assert sum(a.status_code == 202 for a in answers) == 1
    await until(lambda: published(broker))
    await asyncio.sleep(0.2)
    assert len(published(broker)) == 1


async def test_later_opinions_of_a_source_are_revisions_and_the_history_stays(http, broker):
    first = thumb(source={"kind": "human", "id": "u_1"})
    ids = []
    for value in (True, False, None):
        ids.append((await http.post("/v1/feedback", json=first | {"value": value})).json()["id"])
    other = await http.post("/v1/feedback", json=first | {"source": {"kind": "human", "id": "u_2"}})
    read = (await http.get(f"/v1/feedback/{ids[1]}")).json()
    assert [entry["value"] for entry in read["history"]] == [True, False, None]
    assert [entry["revision"] for entry in read["history"]] == [1, 2, 3]
    assert read["value"] is False and read["current"] is False
    assert [entry["sequence"] for entry in read["history"]] == sorted(e["sequence"] for e in read["history"])
    alone = (await http.get(f"/v1/feedback/{other.json()['id']}")).json()
    assert alone["current"] and len(alone["history"]) == 1
    assert (await http.get("/v1/feedback/fb_nobody")).status_code == 404
    assert (await http.get(f"/v1/feedback/{ids[0]}", headers={"x-headrace-project": "other"})).status_code == 404


async def test_a_malformed_batch_keeps_the_good_items_and_names_the_others(http, broker):
    target = an_inference().inference_id
    items = [
        {"id": "fb_good", "inference_id": target, "metric_name": "accepted", "value": True},
        {"metric_name": "accepted", "value": True},
        {"inference_id": target, "metric_name": "accepted"},
        {"inference_id": target, "metric_name": "no good", "value": 1},
        "not an object",
        {"inference_id": target, "metric_name": "accepted", "valeu": 1, "value": 1},
        {"id": "fb_good", "inference_id": target, "metric_name": "accepted", "value": False},
        {"inference_id": target, "metric_name": "demonstration", "value": {"content": "It left today."}},
        {"inference_id": target, "metric_name": "accepted", "value": "a\x00b"},
        {"id": "fb_dry", "inference_id": target, "metric_name": "accepted", "value": 1, "dryrun": True},
    ]
    answer = await http.post("/v1/feedback/batch", json={"items": items})
    assert answer.status_code == 202
    body = answer.json()
    assert body["accepted"] == 3 and len(body["ids"]) == 3 and body["ids"][0] == "fb_good"
    refused = {entry["index"]: (entry["error"]["code"], entry["error"]["param"]) for entry in body["rejected"]}
    assert refused == {
        1: ("target", "inference_id"),
        2: ("missing", "value"),
        3: ("metric_name", "metric_name"),
        4: ("not_an_object", None),
        5: ("unknown_field", "valeu"),
        6: ("conflict", "id"),
        8: ("nul_character", "value"),
    }
    events = await until(lambda: len(published(broker)) == 2 and published(broker))
    assert {event.metric_name for event in events} == {"accepted", "demonstration"}


async def test_one_opinion_twice_in_a_batch_is_two_revisions_in_order(http, broker):
    body = thumb(source={"id": "u_1"})
    answer = await http.post("/v1/feedback/batch", json=[body, body | {"value": False}, thumb()])
    ids = answer.json()["ids"]
    history = (await http.get(f"/v1/feedback/{ids[0]}")).json()["history"]
    assert [(entry["revision"], entry["value"]) for entry in history] == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"not json", 400, "not_json"),
        (b'{"value": NaN}', 400, "not_json"),
        (b"[1]", 422, "not_an_object"),
        (b" " * (1024 * 1024 + 1), 413, "too_large"),
    ],
)
async def test_bodies_that_are_no_feedback_get_a_clear_error(http, body, status, code):
    answer = await http.post("/v1/feedback", content=body)
    assert answer.status_code == status and answer.json()["error"]["code"] == code


async def test_a_batch_has_bounds(http):
    assert (await http.post("/v1/feedback/batch", json={"items": [thumb()] * 101})).status_code == 413
    assert (await http.post("/v1/feedback/batch", json={"items": []})).json()["error"]["code"] == "items"
    assert (await http.post("/v1/feedback/batch", json={"item": [thumb()]})).status_code == 422


async def test_dryrun_keeps_nothing(http, broker, database):
    answer = await http.post("/v1/feedback", json=thumb(id="fb_dry", dryrun=True))
    assert (answer.status_code, answer.json()["status"]) == (200, "valid")
    assert (await http.get("/v1/feedback/fb_dry")).status_code == 404
    late = thumb(dryrun=True, occurred_at=(NOW + timedelta(minutes=6)).isoformat())
    assert (await http.post("/v1/feedback", json=late)).json()["error"]["code"] == "occurred_at"


async def test_openais_metadata_update_is_feedback(http, broker):
    target = an_inference().inference_id
    answer = await http.post(
        f"/v1/chat/completions/{target}",
        json={"metadata": {"feedback.accepted": "true", "feedback.comment": "too long", "plan": "free"}},
    )
    assert answer.status_code == 200 and answer.json()["id"] == target
    events = await until(lambda: len(published(broker)) == 2 and published(broker))
    assert {(e.metric_name, e.value) for e in events} == {("accepted", True), ("comment", "too long")}
    assert all(e.tags == {"plan": "free"} and e.inference_id == target for e in events)
    nothing = await http.post(f"/v1/chat/completions/{target}", json={"metadata": {"plan": "free"}})
    assert nothing.json()["error"]["code"] == "metadata"


async def test_without_the_admin_token_nothing_but_health_answers(service):
    async with client(service, authorization="Bearer wrong") as stranger:
        assert (await stranger.post("/v1/feedback", json=thumb())).status_code == 401
        assert (await stranger.get("/health/live")).status_code == 200


async def test_strict_metrics_refuse_other_names(database, broker):
    strict = build(
        FeedbackSettings(strict_metrics="accepted, copied"),
        platform(database),
        bus=MemoryBus(broker),
        clock=FakeClock(NOW),
    )
    async with started(strict), client(strict) as http:
        assert (await http.post("/v1/feedback", json=thumb(metric_name="copied"))).status_code == 202
        assert (await http.post("/v1/feedback", json=thumb(metric_name="comment", value="no"))).status_code == 202
        other = await http.post("/v1/feedback", json=thumb(metric_name="acepted"))
        assert other.json()["error"]["code"] == "unknown_metric"


async def test_two_hundred_posts_at_once_become_two_hundred_events(http, broker):
    answers = await asyncio.gather(*(http.post("/v1/feedback", json=thumb()) for _ in range(200)))
    ids = {a.json()["id"] for a in answers if a.status_code == 202}
    assert len(ids) == 200
    events = await until(lambda: len(published(broker)) >= 200 and published(broker), 40)
    assert len(events) == 200 and {event.feedback_id for event in events} == ids
    assert len({event.sequence for event in events}) == 200


async def test_a_process_that_dies_after_the_commit_has_its_event_published_by_the_next(database, broker):
    dying = build(FeedbackSettings(), platform(database), bus=MemoryBus(broker), clock=FakeClock(NOW))
    async with client(dying) as http:  # never started: nothing of it runs but the request
        answer = await http.post("/v1/feedback", json=thumb())
        assert answer.status_code == 202
    await dying.database.close()
    assert not broker.all(TOPIC)
    following = build(FeedbackSettings(), platform(database), bus=MemoryBus(broker), clock=FakeClock(NOW))
    async with started(following):
        (event,) = await until(lambda: published(broker))
    assert event.feedback_id == answer.json()["id"]


class _LosesAcks(MemoryBus):
    """Publishes, and then is gone before it can say so."""

    async def publish(self, records):
        await super().publish(records)
        raise Retryable("the connection broke")


async def test_an_ack_that_is_lost_repeats_the_record_under_the_same_id(database, broker):
    service = build(FeedbackSettings(), platform(database), bus=_LosesAcks(broker), clock=FakeClock(NOW))
    async with started(service), client(service) as http:
        await http.post("/v1/feedback", json=thumb())
        await until(lambda: len(broker.all(TOPIC)) >= 2)
    assert len({record.header("ce_id") for record in broker.all(TOPIC)}) == 1


async def test_without_a_database_the_answer_is_503_with_retry_after(database_url):
    away = build(
        FeedbackSettings(),
        platform("postgresql://nobody@127.0.0.1:1/nothing"),
        bus=MemoryBus(MemoryBroker()),
        clock=FakeClock(NOW),
    )
    async with client(away) as http:
        answer = await http.post("/v1/feedback", json=thumb())
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert (await http.get("/health/ready")).status_code == 503
    await away.database.close()


async def test_a_restart_of_postgres_connections_loses_no_accepted_feedback(http, broker, database):
    """Connections that die under the service cost a 503 at most, never an accepted event."""
    accepted = []
    for n in range(30):
        if n % 10 == 5:
            admin = await asyncpg.connect(database)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'headrace-feedback' AND datname = current_database()"
            )
            await admin.close()
        answer = await http.post("/v1/feedback", json=thumb())
        if answer.status_code == 202:
            accepted.append(answer.json()["id"])
        else:
            assert answer.status_code == 503
    await until(lambda: {e.feedback_id for e in published(broker)} == set(accepted))


async def test_the_openapi_document_describes_every_call(http):
    document = (await http.get("/openapi.json")).json()
    assert set(document["paths"]) >= {
        "/v1/feedback",
        "/v1/feedback/batch",
        "/v1/feedback/{feedback_id}",
        "/v1/chat/completions/{inference_id}",
    }
    schema = document["paths"]["/v1/feedback"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["required"]) == {"metric_name", "value"} and "$ref" not in str(schema)
