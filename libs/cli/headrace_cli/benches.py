"""Finding and running a benchmark by its name."""

import importlib
import inspect
import pkgutil
from typing import Any

from headrace_cli.errors import Problem

_NOT_BENCHES = {"report"}


def names() -> list[str]:
    """Every benchmark there is: a module of headrace_local.bench with a function `run`."""
    import headrace_local.bench as package

    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name not in _NOT_BENCHES)


def play(name: str, settings: list[str]) -> Any:
    """Run it; answers its BenchReport. Raises Problem for a name or a parameter that it does not have."""
    if name not in names():
        raise Problem(f"No benchmark is called {name[:80]!r}; there are {', '.join(names())}.", 2)
    run = importlib.import_module(f"headrace_local.bench.{name}").run
    parameters = {k: p for k, p in inspect.signature(run).parameters.items() if k != "say"}
    chosen: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in parameters:
            raise Problem(
                f"{name} has no parameter {setting[:80]!r}; say NAME=VALUE with one of {', '.join(parameters)}.", 2
            )
        default = parameters[key].default
        try:
            chosen[key] = type(default)(text) if isinstance(default, int | float) else text
        except ValueError:
            raise Problem(f"{key} is a {type(default).__name__}, and {text[:80]!r} is none.", 2) from None
    return run(**chosen)
