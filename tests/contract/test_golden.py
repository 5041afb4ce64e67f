"""Golden records stand for records that lie in somebody's topic: they parse for ever."""

import json
from datetime import datetime
from pathlib import Path

import jsonschema
import pytest

from headrace_kit import records
from headrace_schemas import EVENTS, TOPICS, asyncapi
from headrace_schemas.generate import ROOT, baseline, edited_golden, golden_sums

GOLDEN = sorted((ROOT / "schemas" / "golden").glob("*.json"))
BY_TYPE = {f"headrace.{t.event.type}.v{t.event.major}": t for t in TOPICS}


def read(path: Path):
    document = json.loads(path.read_text())
    return document, BY_TYPE[document["headers"]["ce_type"]]


def contains(whole, part, at="value"):
    """Later versions add optional fields: everything golden must still be there, as it was."""
    if isinstance(part, dict):
        for name, value in part.items():
            assert name in whole, f"{at}.{name} is lost"
            contains(whole[name], value, f"{at}.{name}")
    elif isinstance(part, list):
        assert len(whole) == len(part), at
        for n, (one, two) in enumerate(zip(whole, part, strict=True)):
            contains(one, two, f"{at}[{n}]")
    else:
        assert whole == part, f"{at}: {part!r} became {whole!r}"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_golden_record_parses_and_round_trips(path):
    document, topic = read(path)
    event = topic.event.model_validate(document["value"])
    contains(json.loads(event.model_dump_json()), document["value"])
    assert topic.event.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_golden_record_is_what_the_kit_puts_on_the_wire_and_reads_from_it(path):
    document, topic = read(path)
    headers = document["headers"]
    event = topic.event.model_validate(document["value"])
    sent = records.encode(
        event,
        topic=topic.name(),
        source=headers["ce_source"].removeprefix("/headrace/"),
        recorded_at=datetime.fromisoformat(headers["ce_recordedtime"]),
        cause=headers.get("ce_causationid", ""),
    )
    there = {k: v.decode() for k, v in sent.headers}
    assert there | {"traceparent": headers["traceparent"]} == headers
    assert (sent.topic, sent.key.decode()) == (document["topic"], document["key"])
    record = records.Record(sent.topic, 0, 0, sent.key, sent.value, sent.headers)
    assert records.decode(record, topic.event) == event


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_golden_record_satisfies_the_published_schema(path):
    document, topic = read(path)
    schema = baseline(ROOT)[asyncapi.schema_file(topic)]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document["value"])
    required = asyncapi.document()["components"]["schemas"]["headers"]
    jsonschema.Draft202012Validator(required).validate(document["headers"])
    assert set(document["headers"]) <= set(asyncapi.HEADERS)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_the_key_is_the_field_that_the_map_names(path):
    document, topic = read(path)
    named = document["value"].get(topic.keyed_by)
    assert document["key"] == (named or document["key"])
    assert document["key"]


def test_every_event_has_a_golden_record():
    there = {read(path)[1].event for path in GOLDEN}
    assert there == set(EVENTS)


def test_no_golden_record_was_edited():
    assert edited_golden(ROOT) == []


def test_an_edited_and_a_removed_golden_record_are_named(tmp_path):
    folder = tmp_path / "schemas" / "golden"
    folder.mkdir(parents=True)
    for name in ("a.json", "b.json"):
        (folder / name).write_text("{}")
    (folder / "SHA256SUMS").write_text(golden_sums(tmp_path))
    assert edited_golden(tmp_path) == []
    (folder / "a.json").write_text('{"x": 1}')
    (folder / "b.json").unlink()
    (folder / "c.json").write_text("{}")
    assert [line.split(":")[0] for line in edited_golden(tmp_path)] == [
        "schemas/golden/a.json was edited",
        "schemas/golden/b.json was removed",
    ]
