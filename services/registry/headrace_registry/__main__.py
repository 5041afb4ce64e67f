"""`python -m headrace_registry`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_kit import logging
from headrace_kit.settings import PlatformSettings
from headrace_registry.settings import RegistrySettings


def main() -> None:
    try:
        settings, platform = RegistrySettings(), PlatformSettings.read()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        sys.exit(_settings_problem(error.title, first["loc"], first["msg"]))
    logging.configure("registry", platform.process.log_level, platform.process.log_format)
    from headrace_registry.app import build

    asyncio.run(_run(settings, platform, build))


async def _run(settings, platform, build) -> None:
    await build(settings, platform).serve(settings)


if __name__ == "__main__":
    main()
