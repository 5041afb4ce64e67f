"""The rules of the house that a test can hold."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(
    p for top in ("schemas", "libs", "services") for p in (ROOT / top).rglob("*.py") if ".venv" not in p.parts
)
SLIM = [
    "headrace",
    "headrace_schemas",
    "headrace_kit",
    "headrace_scoring",
    "headrace_local",
    "headrace_cli",
    "headrace_serving",
    "headrace_feedback",
    "headrace_reward",
    "headrace_evaluation",
    "headrace_registry",
    "headrace_console",
]


def test_no_module_is_longer_than_400_lines():
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 400}
    assert not long, f"split these: a module has one idea {long}"


def test_no_module_has_a_name_without_a_meaning():
    bad = [
        str(p.relative_to(ROOT)) for p in SOURCES if p.stem in {"utils", "util", "common", "helpers", "manager", "misc"}
    ]
    assert not bad


def test_broad_excepts_stand_only_where_they_are_meant_to():
    """The consumer, the service's task guard, and the mains; a trainer's main included."""
    allowed = {"consumer.py", "service.py", "__main__.py"}
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else {"bare"}
                if names & {"Exception", "BaseException", "bare"} and path.name not in allowed:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    reraising = [f for f in found if not _reraises(f)]
    assert not reraising, reraising


def _reraises(place: str) -> bool:
    name, line = place.rsplit(":", 1)
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.ExceptHandler) and node.lineno == int(line):
            return any(isinstance(n, ast.Raise) for n in ast.walk(node))
    return False


def test_nothing_is_built_at_import():
    """No settings, engine, broker or client as a module's global."""
    built = re.compile(r"^(\w+)\s*(:[^=]+)?=\s*\w*(Settings|Bus|Broker|Database|Client|Session|Engine)\(", re.M)
    found = [f"{p.relative_to(ROOT)}: {m[0]}" for p in SOURCES for m in built.finditer(p.read_text())]
    assert not found


@pytest.mark.timeout(60)
def test_everything_but_training_imports_without_torch():
    program = f"""
import importlib, pkgutil, sys
heavy = {{"torch", "transformers", "trl", "peft", "accelerate", "datasets", "vllm"}}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in heavy:
            raise ImportError("heavy: " + name)
sys.meta_path.insert(0, Refuse())
for top in {SLIM!r}:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if module.name.endswith("__main__") or ".migrations" in module.name:
            continue
        importlib.import_module(module.name)
print("slim")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "slim", done.stderr[-2000:]


def test_the_sdk_imports_no_service_library():
    program = "import sys, headrace; bad = {m for m in sys.modules if m.split('.')[0] in ('pydantic', 'sqlalchemy', 'faststream', 'headrace_kit')}; print(sorted(bad))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
