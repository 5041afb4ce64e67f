"""Says in words what a change of a JSON Schema breaks, and for whom.

Within a major version only optional fields are added (architecture §2). Everything else hurts somebody: records that
lie in a topic, producers that have not been upgraded, or readers that have not. Anything that hurts is a `-v2` topic
beside the old one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_OTHER = ("pattern", "format", "const")
_MISSING = object()


def explain(name: str, old: Schema, new: Schema) -> list[str]:
    """One sentence for each break between two schemas of the event `name`; empty where `new` only adds optionals."""
    return list(dict.fromkeys(_object(name, _resolve(old, old), _resolve(new, new), old, new)))


def explain_all(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[str]:
    """The same over all events, by name: an event that is gone breaks everybody who reads it."""
    gone = [
        f"{name} is gone: whoever reads or writes it is left alone; keep it until nobody does."
        for name in sorted(set(old) - set(new))
    ]
    return gone + [line for name in sorted(set(old) & set(new)) for line in explain(name, old[name], new[name])]


def _resolve(schema: Schema, root: Schema) -> Schema:
    """Follow a reference into `$defs`; what stands beside it stays."""
    while "$ref" in schema:
        target = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema


def _object(at: str, old: Schema, new: Schema, old_root: Schema, new_root: Schema) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    was_required, is_required = set(old.get("required", ())), set(new.get("required", ()))
    for field in sorted(set(before) - set(after)):
        yield f"{at}: the field {field!r} was removed; readers of this version still expect it."
    for field in sorted(set(after) - set(before)):
        if field in is_required:
            yield (
                f"{at}: the new field {field!r} is required; records already written and producers not yet upgraded "
                "lack it. Give it a default."
            )
    for field in sorted(set(before) & set(after)):
        path = f"{at}.{field}"
        if field in is_required - was_required:
            yield f"{path} became required; records written without it no longer parse."
        if field in was_required - is_required:
            yield f"{path} was always there and may now be missing; readers that rely on it fail."
        one, two = _resolve(before[field], old_root), _resolve(after[field], new_root)
        if field not in is_required and one.get("default", _MISSING) != two.get("default", _MISSING):
            yield (
                f"{path}: the default changed from {one.get('default')!r} to {two.get('default')!r}; records written "
                "without the field change their meaning."
            )
        yield from _value(path, one, two, old_root, new_root)
    if old.get("additionalProperties", True) is not False and new.get("additionalProperties", True) is False:
        yield f"{at} now refuses fields that it does not know; a later minor version could not add any."
    values = [s.get("additionalProperties") for s in (old, new)]
    if isinstance(values[0], Mapping) and isinstance(values[1], Mapping):
        yield from _value(f"{at}.*", _resolve(values[0], old_root), _resolve(values[1], new_root), old_root, new_root)


def _value(at: str, old: Schema, new: Schema, old_root: Schema, new_root: Schema) -> Iterator[str]:
    before, after = _alternatives(old, old_root), _alternatives(new, new_root)
    for kind in sorted(set(before) - set(after)):
        yield f"{at} may no longer be {_article(kind)}; records that hold one no longer parse."
    for kind in sorted(set(after) - set(before)):
        yield f"{at} may now also be {_article(kind)}; readers of this version do not expect one."
    for kind in sorted(set(before) & set(after)):
        one, two = before[kind], after[kind]
        yield from _enum(at, one, two)
        yield from _limits(at, one, two)
        if kind == "object":
            yield from _object(at, one, two, old_root, new_root)
        if kind == "array" and "items" in one and "items" in two:
            items = (_resolve(one["items"], old_root), _resolve(two["items"], new_root))
            yield from _value(f"{at}[]", *items, old_root, new_root)


def _alternatives(schema: Schema, root: Schema) -> dict[str, Schema]:
    """The schema by JSON type: `anyOf` taken apart. Something without a type may be anything."""
    parts = [_resolve(part, root) for part in schema.get("anyOf", schema.get("oneOf", (schema,)))]
    found: dict[str, Schema] = {}
    for part in parts:
        stated = part.get("type", "any value")
        for kind in [stated] if isinstance(stated, str) else stated:
            found[kind] = part
    return found


def _enum(at: str, old: Schema, new: Schema) -> Iterator[str]:
    before, after = old.get("enum"), new.get("enum")
    if before is None and after is not None:
        yield f"{at} is now limited to {', '.join(map(repr, after))}; records that hold anything else no longer parse."
    if before is not None and after is None:
        yield f"{at} may now be anything; readers of this version know {', '.join(map(repr, before))} only."
    if before is not None and after is not None:
        for value in [v for v in before if v not in after]:
            yield f"{at} may no longer be {value!r}; records that hold it no longer parse."
        for value in [v for v in after if v not in before]:
            yield f"{at} may now also be {value!r}; readers of this version do not know it."


def _limits(at: str, old: Schema, new: Schema) -> Iterator[str]:
    for names, sign in ((_LOWER, 1), (_UPPER, -1)):
        for limit in names:
            before, after = old.get(limit), new.get(limit)
            if before == after:
                continue
            tighter = before is None or (after is not None and (after - before) * sign > 0)
            yield f"{at}: {limit} went from {_shown(before)} to {_shown(after)}; " + (
                "records beyond the new limit no longer parse."
                if tighter
                else "readers of this version refuse what lies beyond the old limit."
            )
    for limit in _OTHER:
        if old.get(limit) != new.get(limit):
            yield (
                f"{at}: {limit} changed from {_shown(old.get(limit))} to {_shown(new.get(limit))}; "
                "one side refuses what the other writes."
            )


def _article(kind: str) -> str:
    return kind if kind in ("null", "any value") else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _shown(value: object) -> str:
    return "none" if value is None else repr(value)
