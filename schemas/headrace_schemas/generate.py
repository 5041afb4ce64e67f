"""Writes what is generated from the models and topics.py; `--check` says in words what is stale.

python -m headrace_schemas.generate [--check] [--unreleased]

Outputs: `schemas/json/*.json` (JSON Schema 2020-12; also the baseline that changes are compared with),
`schemas/asyncapi.yaml`, the table in schemas/README.md, the picture in README.md, `schemas/golden/SHA256SUMS`.
A change that breaks somebody is refused; `--unreleased` accepts it while nobody reads the version yet.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from headrace_schemas import TOPICS, PolicySpec, asyncapi, breaks, picture

ROOT = Path(__file__).resolve().parents[2]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
POLICY_FILE = "policy-file.json"


def schemas() -> dict[str, dict[str, Any]]:
    """File name → JSON Schema of each event's value."""
    return {
        asyncapi.schema_file(topic): {
            "$schema": DIALECT,
            "$id": f"/schemas/{asyncapi.schema_file(topic)}",
            **topic.event.model_json_schema(),
        }
        for topic in TOPICS
    }


def baseline(root: Path) -> dict[str, dict[str, Any]]:
    """The schemas as committed: what others build on."""
    folder = root / "schemas" / "json"
    return {p.name: json.loads(p.read_text()) for p in sorted(folder.glob("*.json")) if p.name != POLICY_FILE}


def between(text: str, marker: str, content: str) -> str | None:
    """`text` with what stands between the markers replaced; None where the markers are missing."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, found, rest = text.partition(begin)
    _, found_too, after = rest.partition(end)
    if not (found and found_too):
        return None
    return f"{before}{begin}\n{content}{end}{after}"


def golden_sums(root: Path) -> str:
    """`sha256  name` for each golden record: they are added to, never edited."""
    files = sorted((root / "schemas" / "golden").glob("*.json"))
    return "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files)


def outputs(root: Path) -> tuple[dict[Path, str], list[str]]:
    """Every generated file with its content, and complaints about files that cannot be generated."""
    folder = root / "schemas"
    files = {folder / "json" / name: _json(schema) for name, schema in schemas().items()}
    files[folder / "json" / POLICY_FILE] = _json(
        {"$schema": DIALECT, "$id": f"/schemas/{POLICY_FILE}", **PolicySpec.model_json_schema()}
    )
    files[folder / "asyncapi.yaml"] = (
        "# Generated from headrace_schemas/topics.py by `python -m headrace_schemas.generate`.\n"
        + asyncapi.to_yaml(asyncapi.document())
    )
    files[folder / "golden" / "SHA256SUMS"] = golden_sums(root)
    complaints = []
    for path, marker, content in (
        (root / "README.md", "loop", f"```mermaid\n{picture.picture()}```\n"),
        (folder / "README.md", "topics", picture.table()),
    ):
        text = between(path.read_text(), marker, content)
        if text is None:
            complaints.append(
                f"{path.relative_to(root)} has no place for what is generated: put <!-- {marker}:begin --> and "
                f"<!-- {marker}:end --> on lines of their own."
            )
        else:
            files[path] = text
    return files, complaints


def edited_golden(root: Path) -> list[str]:
    """A sentence for each golden record that was changed or removed since it was added."""
    sums = root / "schemas" / "golden" / "SHA256SUMS"
    known = _by_name(sums.read_text()) if sums.exists() else {}
    now = _by_name(golden_sums(root))
    return [
        f"schemas/golden/{name} was {'edited' if name in now else 'removed'}: a golden record stands for records that "
        "lie in somebody's topic. Put it back, and add another beside it."
        for name, digest in known.items()
        if now.get(name) != digest
    ]


def _by_name(sums: str) -> dict[str, str]:
    return {name: digest for digest, name in (line.split("  ") for line in sums.splitlines())}


def stale(root: Path) -> list[str]:
    """A sentence for each output that is not what would be generated now."""
    files, complaints = outputs(root)
    return complaints + [
        f"{path.relative_to(root)} is {'stale' if path.exists() else 'missing'}: "
        "run `python -m headrace_schemas.generate`."
        for path, text in files.items()
        if not path.exists() or path.read_text() != text
    ]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """0 where all is well (or was written); 1 with a sentence a problem on stderr."""
    parser = argparse.ArgumentParser(prog="python -m headrace_schemas.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is stale or breaks somebody")
    parser.add_argument("--unreleased", action="store_true", help="accept breaking changes: nobody reads this yet")
    options = parser.parse_args(arguments)
    problems = [] if options.unreleased else breaks.explain_all(baseline(root), schemas())
    problems += edited_golden(root)
    if options.check:
        problems += stale(root)
    elif not problems:
        files, problems = outputs(root)
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
