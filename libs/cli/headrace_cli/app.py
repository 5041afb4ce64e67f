"""The command's tree: one module for each group of commands, put together here."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli import evals, feedback, keys, policies, stack, versions
from headrace_cli.places import Places


def build() -> typer.Typer:
    """The whole command."""
    app = typer.Typer(
        name="headrace",
        help="Production feedback becomes better weights: serve, listen, train, prove, swap.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        context: typer.Context,
        root: Annotated[
            Path | None,
            typer.Option(
                help="Folder of the local stack; else HEADRACE_ROOT, or the nearest folder upwards that has one.",
                show_default=False,
            ),
        ] = None,
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    ) -> None:
        context.obj = Places.find(root)

    stack.register(app)
    policies.register(app)
    feedback.register(app)
    app.add_typer(versions.app(), name="versions")
    app.add_typer(evals.app(), name="evals")
    app.add_typer(keys.app(), name="keys")
    return app
