"""What is generated is up to date, and says all that topics.py says."""

import shutil

import pytest
import yaml

from headrace_schemas import EVENTS, TOPICS, asyncapi, picture
from headrace_schemas.base import VersionRef
from headrace_schemas.generate import ROOT, main, schemas, stale


def a_tree(tmp_path):
    """A copy of what the generator reads and writes."""
    shutil.copytree(
        ROOT / "schemas", tmp_path / "schemas", ignore=shutil.ignore_patterns("headrace_schemas", "__pycache__")
    )
    (tmp_path / "README.md").write_text("# x\n<!-- loop:begin -->\nold\n<!-- loop:end -->\n")
    assert main([], tmp_path) == 0
    return tmp_path


def test_the_committed_outputs_are_fresh():
    assert stale(ROOT) == []


def test_a_stale_output_is_named_with_the_mend(tmp_path, capsys):
    root = a_tree(tmp_path)
    assert main(["--check"], root) == 0
    (root / "schemas" / "asyncapi.yaml").write_text("asyncapi: 2")
    (root / "schemas" / "json" / "route-changed.v1.json").unlink()
    (root / "README.md").write_text("no marker")
    # A schema that is missing from the baseline has nothing to be compared with, so only staleness is told.
    assert main(["--check"], root) == 1
    told = capsys.readouterr().err
    assert "schemas/asyncapi.yaml is stale: run `python -m headrace_schemas.generate`." in told
    assert "schemas/json/route-changed.v1.json is missing" in told
    assert "README.md has no place for what is generated: put <!-- loop:begin -->" in told


def test_a_breaking_change_is_refused_and_nothing_is_written(tmp_path, capsys):
    root = a_tree(tmp_path)
    path = root / "schemas" / "json" / "feedback-recorded.v1.json"
    edited = path.read_text().replace('"feedback_id"', '"other_id"')
    path.write_text(edited)
    assert main([], root) == 1
    assert "the field 'other_id' was removed" in capsys.readouterr().err
    assert path.read_text() == edited
    assert main(["--unreleased"], root) == 0
    assert path.read_text() != edited


def test_the_asyncapi_document_is_the_same_in_yaml():
    document = asyncapi.document()
    assert yaml.safe_load((ROOT / "schemas" / "asyncapi.yaml").read_text()) == document
    assert len(document["channels"]) == len(TOPICS)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda t: t.event.type)
def test_every_topic_has_its_channel_message_and_operations(topic):
    document = asyncapi.document()
    name = topic.event.__name__
    channel = document["channels"][name[0].lower() + name[1:]]
    assert channel["address"] == topic.name()
    assert channel["bindings"]["kafka"]["partitions"] == topic.partitions
    message = document["components"]["messages"][name]
    assert (ROOT / "schemas" / message["payload"]["$ref"]).exists()
    operations = {o for o in document["operations"] if o.endswith(name)}
    assert operations == {f"{topic.producer}Publishes{name}", *(f"{c}Reads{name}" for c in topic.consumers)}


def test_every_topic_is_in_the_picture():
    drawn = picture.picture()
    for topic in TOPICS:
        assert f"{topic.event.type}" in drawn
        for consumer in set(topic.consumers) - {"console", topic.producer}:
            edge = next(
                line
                for line in drawn.splitlines()
                if line.strip().startswith(f"{topic.producer} ==") and line.endswith(f"==> {consumer}")
            )
            assert topic.event.type in edge


@pytest.mark.parametrize("text", ["yes", "a: b", "", "1", "# no", 'don\'t "quote"', "null", "- x", "[a]", "über\nzwei"])
def test_yaml_reads_back_as_it_was(text):
    value = {"a": text, text or "k": [text, {"b": text}, []], "n": [1, 1.5, True, None, {}]}
    assert yaml.safe_load(asyncapi.to_yaml(value)) == value


def test_every_field_of_every_event_is_described():
    seen = {}

    def walk(name, schema):
        for field, value in schema.get("properties", {}).items():
            if "description" not in value:
                seen[f"{name}.{field}"] = True

    for name, schema in schemas().items():
        walk(name, schema)
        for inner, definition in schema.get("$defs", {}).items():
            walk(inner, definition)
    assert not seen, sorted(seen)
    assert VersionRef in {f.annotation for e in EVENTS for f in e.model_fields.values()}
