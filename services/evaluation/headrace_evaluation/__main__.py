"""`python -m headrace_evaluation`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_evaluation.settings import EvaluationSettings, PlacesSettings
from headrace_kit import logging
from headrace_kit.settings import PlatformSettings


def main() -> int:
    try:
        settings = EvaluationSettings()
        platform, places = PlatformSettings.read(), PlacesSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        sys.stderr.write(f"evaluation: the setting {error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure("evaluation", platform.process.log_level, platform.process.log_format)

    async def run() -> None:
        from headrace_evaluation.app import build

        await build(settings, platform, places).serve(settings)

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
