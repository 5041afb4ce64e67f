"""What a change of an event breaks is said in words; what breaks nobody is passed in silence."""

from typing import Any, Literal

import pytest
from pydantic import Field, create_model

from headrace_schemas.base import Value
from headrace_schemas.breaks import explain, explain_all
from headrace_schemas.generate import ROOT, baseline, schemas


def schema(**fields):
    return create_model("Thing", __base__=Value, **fields).model_json_schema()


Inner = create_model("Inner", __base__=Value, count=(int, ...))
Narrow = create_model("Inner", __base__=Value, count=(int, Field(ge=1)))
Wider = create_model("Inner", __base__=Value, count=(int, ...), note=(str, ""))


def test_the_events_of_today_break_nobody_who_reads_the_committed_schemas():
    assert explain_all(baseline(ROOT), schemas()) == []


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({"a": (str, ...), "b": (int, 0)}, "an optional field"),
        ({"a": (str, ...), "b": (str | None, None)}, "an optional field that may be null"),
        ({"a": (str, Field(description="in other words"))}, "another description"),
    ],
)
def test_additions_that_nobody_needs_to_know_pass(new, why):
    assert explain("thing", schema(a=(str, ...)), schema(**new)) == [], why


def test_optional_fields_may_be_added_deep_inside():
    before, after = (
        schema(inner=(Inner, ...), many=(tuple[Inner, ...], ())),
        schema(inner=(Wider, ...), many=(tuple[Wider, ...], ())),
    )
    assert explain("thing", before, after) == []


BREAKS = [
    ("removed", {"a": (str, ...), "b": (int, 0)}, {"a": (str, ...)}, "thing: the field 'b' was removed; readers"),
    ("new and required", {"a": (str, ...)}, {"a": (str, ...), "b": (int, ...)}, "thing: the new field 'b' is required"),
    ("became required", {"a": (str, "")}, {"a": (str, ...)}, "thing.a became required; records written without it"),
    ("became optional", {"a": (str, ...)}, {"a": (str, "")}, "thing.a was always there and may now be missing"),
    ("default", {"a": (int, 1)}, {"a": (int, 2)}, "thing.a: the default changed from 1 to 2; records written without"),
    ("type narrowed", {"a": (str | None, None)}, {"a": (str, None)}, "thing.a may no longer be null; records that hold"),
    ("type widened", {"a": (str, ...)}, {"a": (str | int, ...)}, "thing.a may now also be an integer; readers of this"),
    ("type changed", {"a": (int, ...)}, {"a": (str, ...)}, "thing.a may no longer be an integer; records"),
    ("enum narrowed", {"a": (Literal["x", "y"], ...)}, {"a": (Literal["x", "z"], ...)}, "thing.a may no longer be 'y'"),
    ("enum widened", {"a": (Literal["x", "y"], ...)}, {"a": (Literal["x", "y", "z"], ...)}, "thing.a may now also be 'z'; readers"),
    ("enum begun", {"a": (str, ...)}, {"a": (Literal["x", "y"], ...)}, "thing.a is now limited to 'x', 'y'; records"),
    ("enum dropped", {"a": (Literal["x", "y"], ...)}, {"a": (str, ...)}, "thing.a may now be anything; readers of this version know"),
    ("limit tightened", {"a": (int, Field(ge=0))}, {"a": (int, Field(ge=1))}, "thing.a: minimum went from 0 to 1; records beyond"),
    ("limit begun", {"a": (str, ...)}, {"a": (str, Field(max_length=9))}, "thing.a: maxLength went from none to 9; records beyond"),
    ("limit loosened", {"a": (str, Field(max_length=9))}, {"a": (str, Field(max_length=10))}, "thing.a: maxLength went from 9 to 10; readers of"),
    ("pattern", {"a": (str, Field(pattern="^a"))}, {"a": (str, Field(pattern="^b"))}, "thing.a: pattern changed from '^a' to '^b'"),
    ("deep inside", {"a": (Inner, ...)}, {"a": (Narrow, ...)}, "thing.a.count: minimum went from none to 1; records beyond"),
    ("in a list", {"a": (tuple[Inner, ...], ())}, {"a": (tuple[Narrow, ...], ())}, "thing.a[].count: minimum went from none"),
    ("in a mapping", {"a": (dict[str, int], {})}, {"a": (dict[str, str], {})}, "thing.a.* may no longer be an integer"),
    ("in one of several", {"a": (int | Inner, 0)}, {"a": (int | Narrow, 0)}, "thing.a.count: minimum went from none to 1"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "sentence"), [b[1:] for b in BREAKS], ids=[b[0] for b in BREAKS])
def test_each_kind_of_break_is_a_sentence(before, after, sentence):
    found = explain("thing", schema(**before), schema(**after))
    assert any(line.startswith(sentence) for line in found), found
    assert all(line.endswith(".") for line in found)


def test_closing_an_event_to_unknown_fields_is_a_break():
    open_one: dict[str, Any] = {"type": "object", "properties": {}}
    assert "could not add any" in explain("thing", open_one, open_one | {"additionalProperties": False})[0]


def test_an_event_that_is_gone_is_a_break_and_a_new_one_is_not():
    one = schema(a=(str, ...))
    assert explain_all({}, {"new.v1.json": one}) == []
    assert explain_all({"old.v1.json": one}, {})[0].startswith("old.v1.json is gone: whoever reads or writes it")
