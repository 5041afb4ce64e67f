"""`python -m headrace_console`"""

import sys

import uvloop
from pydantic import ValidationError

from headrace_console.settings import ConsoleSettings
from headrace_kit import logging
from headrace_kit.settings import PlatformSettings


def main() -> int:
    try:
        settings, platform = ConsoleSettings(), PlatformSettings.read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        sys.stderr.write(f"console: the setting {error.title}{'.' if field else ''}{field}: {first['msg']}\n")
        return 2
    logging.configure("console", platform.process.log_level, platform.process.log_format)

    async def run() -> None:
        from headrace_console.app import build

        await build(settings, platform).serve(settings)

    uvloop.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
