"""`python -m headrace_training`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_kit import logging
from headrace_kit.settings import ObjectSettings, PlatformSettings
from headrace_training.settings import ModelSettings, TrainingSettings


def main() -> int:
    try:
        settings, platform = TrainingSettings(), PlatformSettings.read()
        ObjectSettings(), ModelSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        sys.stderr.write(f"training: the setting {error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure("training", platform.process.log_level, platform.process.log_format)

    async def run() -> None:
        from headrace_training.app import build

        await build(settings, platform).serve(settings)

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
