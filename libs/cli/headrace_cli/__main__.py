"""`headrace`, and the last place where an error can become a sentence."""

import sys
from typing import TYPE_CHECKING

from headrace_cli.errors import Problem

if TYPE_CHECKING:
    from typer.exceptions import TyperException


def run(arguments: list[str]) -> int:
    """The exit status: 0 well, 1 it did not work, 2 it was asked for wrongly, 130 Ctrl-C."""
    import typer
    from typer.exceptions import TyperException

    from headrace_cli.app import build
    from headrace_cli.screen import err

    debug = "--debug" in arguments
    try:
        # --debug may stand anywhere; typer knows it before the command only.
        plain = [*(["--debug"] if debug else []), *(a for a in arguments if a != "--debug")]
        done = typer.main.get_command(build())(plain, prog_name="headrace", standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except TyperException as wrong:
        return _usage(wrong)
    except KeyboardInterrupt:
        err().print("Stopped.")
        return 130
    except Problem as problem:
        if debug:
            raise
        err().print(problem.sentence, style="red")
        return problem.status
    except Exception as bug:
        if debug:
            raise
        err().print(
            f"A bug in headrace ({type(bug).__name__}: {bug}): run it again with --debug and report it.", style="red"
        )
        return 1
    return done if isinstance(done, int) else 0


def _usage(wrong: "TyperException") -> int:
    """A command that was misspelt: one sentence, and where the right spelling is."""
    from headrace_cli.screen import err

    command = getattr(getattr(wrong, "ctx", None), "command_path", "headrace")
    said = wrong.format_message().strip()
    if "Usage:" in said or not said:  # a group of commands alone: its help is the answer
        err().print(said)
    else:
        said = said if said.endswith("?") else f"{said.rstrip('.')}:"
        err().print(f"{said} `{command} --help` shows how.", style="red")
    return wrong.exit_code


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
