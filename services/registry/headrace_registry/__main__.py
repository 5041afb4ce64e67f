"""`python -m headrace_registry`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_kit import logging
from headrace_kit.settings import PlatformSettings
from headrace_registry.settings import RegistrySettings


def main() -> int:
    try:
        settings, platform = RegistrySettings(), PlatformSettings.read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        sys.stderr.write(f"registry: the setting {error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure("registry", platform.process.log_level, platform.process.log_format)

    async def run() -> None:
        from headrace_registry.app import build

        await build(settings, platform).serve(settings)

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
