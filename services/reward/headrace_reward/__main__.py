"""`python -m headrace_reward`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_kit import logging
from headrace_kit.settings import PlatformSettings
from headrace_reward.settings import RewardSettings


def main() -> int:
    """Exit code 2 with one sentence where a setting is wrong or missing."""
    try:
        settings, platform = RewardSettings(), PlatformSettings.read()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        sys.stderr.write(f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure("reward", platform.process.log_level, platform.process.log_format)
    from headrace_reward.app import build

    asyncio.run(build(settings, platform).serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
