"""Where the services are and how to be let in: the environment first, else the local stack that runs here."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_cli.errors import Problem

if TYPE_CHECKING:
    from headrace_local.state import StackState


@dataclass
class Places:
    """`root` is the folder whose stack is meant."""

    root: Path

    @classmethod
    def find(cls, given: Path | None) -> "Places":
        """The folder named, or HEADRACE_ROOT, or the nearest one upwards with a stack in it, or the current one."""
        named = given or (Path(os.environ["HEADRACE_ROOT"]) if os.environ.get("HEADRACE_ROOT") else None)
        if named is not None:
            return cls(named.expanduser().resolve())
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / ".headrace" / "stack.json").exists():
                return cls(folder)
        return cls(here)

    @cached_property
    def stack(self) -> "StackState | None":
        """The stack of `root` where it is up; else None."""
        from headrace_local.options import layout
        from headrace_local.state import is_supervised, read

        where = layout(self.root)
        state = read(where)
        if state is None or not is_supervised(where):
            return None
        return state

    def url(self, service: str) -> str:
        """A service's address. Raises Problem where neither the environment nor a stack knows one."""
        variable = f"HEADRACE_{service.upper()}_URL"
        if os.environ.get(variable):
            return os.environ[variable].rstrip("/").removesuffix("/v1")
        if self.stack is None:
            raise Problem(
                f"No stack runs in {self.root}, and {variable} is not set: start one with `headrace up`, "
                f"or say where the {service} is."
            )
        if service not in self.stack.ports:
            raise Problem(f"The stack in {self.root} runs without a {service}: `headrace status` shows what it has.")
        return self.stack.url(service)

    def bearer(self, service: str) -> str:
        """What to authenticate with: an API key at the gateway, the admin token elsewhere. Raises Problem."""
        variable = "HEADRACE_API_KEY" if service == "gateway" else "HEADRACE_ADMIN_TOKEN"
        if os.environ.get(variable):
            return os.environ[variable]
        # Another installation's token is none for a service that the environment names.
        mine = not os.environ.get(f"HEADRACE_{service.upper()}_URL")
        if mine and self.stack is not None:
            token = self.stack.api_key if service == "gateway" else self.stack.admin_token
            if token:
                return token
        if service == "gateway":
            raise Problem("No API key is known: set HEADRACE_API_KEY, or make one with `headrace keys create NAME`.")
        raise Problem("The admin token is missing: set HEADRACE_ADMIN_TOKEN to the one that the services run with.")
