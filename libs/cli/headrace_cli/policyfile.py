"""A policy file in YAML (or JSON, which is YAML): read, checked, and each problem named with its line and field.

pydantic says *where in the document* something is wrong; YAML's node tree says on which line that is. The two meet here
and nowhere else.
"""

import json
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError

from headrace_schemas import PolicySpec
from headrace_scoring.rules import rule_problem

Loc = tuple[int | str, ...]
MAX_BYTES = 1_000_000


class Problem(NamedTuple):
    """One thing that is wrong with a policy file."""

    line: int
    """Counted from 1."""
    field: str
    """As a path: `reward.parts.0.weight`; empty where the file as a whole is meant."""
    message: str


class PolicyFileError(ValueError):
    """The file cannot be applied; `problems` says why, in the order of the file."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__(
            "\n".join(
                f"{name}:{p.line}: {p.field}: {p.message}" if p.field else f"{name}:{p.line}: {p.message}"
                for p in self.problems
            )
        )


def read_policy(path: Path) -> PolicySpec:
    """The policy in a file. Raises PolicyFileError; OSError where it cannot be read."""
    if path.stat().st_size > MAX_BYTES:
        raise PolicyFileError(str(path), [Problem(1, "", "a policy file has at most 1 MB")])
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise PolicyFileError(str(path), [Problem(line, "", "the file is not UTF-8")]) from None
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str = "policy") -> PolicySpec:
    """The policy in a text; `name` is what errors call the file. Raises PolicyFileError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        problems = _repeated(root, ()) if root is not None else []
        document = yaml.safe_load(text) if not problems else None
    except yaml.YAMLError as error:
        raise PolicyFileError(name, [_not_yaml(error)]) from None
    except RecursionError:
        raise PolicyFileError(name, [Problem(1, "", "the file is nested too deeply")]) from None
    if problems:
        raise PolicyFileError(name, problems)
    if root is None or not isinstance(document, dict):
        line = root.start_mark.line + 1 if root is not None else 1
        raise PolicyFileError(name, [Problem(line, "", "a policy file is a mapping that starts with `policy: NAME`")])
    try:
        spec = PolicySpec.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        told = [e for e in found if not _follows(e["type"], e["loc"], [other["loc"] for other in found])]
        raise PolicyFileError(name, [_problem(root, e["loc"], e["type"], e["msg"]) for e in told]) from None
    patterns = [
        _problem(root, ("reward", "parts", index, "rule", "matches"), "pattern", problem)
        for index, part in enumerate(spec.reward.parts)
        if part.kind == "rule" and (problem := rule_problem(part.rule)) is not None
    ]
    if patterns:
        raise PolicyFileError(name, patterns)
    return spec


def _not_yaml(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Problem(mark.line + 1 if mark else 1, "", f"not YAML: {said}")


def _repeated(node: yaml.Node, at: Loc) -> list[Problem]:
    """Keys that occur twice: YAML would keep the last one in silence."""
    found = []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            here = (*at, str(key.value))
            if here[-1] in seen:
                found.append(Problem(key.start_mark.line + 1, _text(here), "this key occurs twice"))
            seen.add(str(here[-1]))
            found += _repeated(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            found += _repeated(value, (*at, index))
    return found


def _follows(kind: str, loc: Loc, others: list[Loc]) -> bool:
    """Whether a list is only called too short because items of it are wrong, which is said already."""
    return kind == "too_short" and any(len(o) > len(loc) and o[: len(loc)] == loc for o in others)


def _problem(root: yaml.Node, loc: Loc, kind: str, message: str) -> Problem:
    """Follow pydantic's location through the node tree. Steps that are no key (the tag of a union) are passed over;
    a field that is missing is reported on the line of what it is missing from.
    """
    node, line, path = root, root.start_mark.line + 1, list[int | str]()
    for step in loc:
        child = _child(node, step)
        if child is not None:
            line, node = child
            path.append(step)
    if loc and kind == "missing":
        path.append(loc[-1])
    said = {
        "missing": "is missing",
        "extra_forbidden": "is not a field of a policy file",
        "too_short": "needs at least one item",
    }.get(kind, message)
    return Problem(line, _text(tuple(path)), said.removeprefix("Value error, "))


def _child(node: yaml.Node, step: int | str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


def _text(loc: Loc) -> str:
    return ".".join(map(str, loc))
