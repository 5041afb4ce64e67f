"""`python -m headrace_feedback`"""

import asyncio
import sys

from pydantic import ValidationError

from headrace_feedback.settings import FeedbackSettings
from headrace_kit import logging
from headrace_kit.settings import PlatformSettings


def main() -> int:
    """Exit code 2 with one sentence where a setting is wrong or missing."""
    try:
        settings, platform = FeedbackSettings(), PlatformSettings.read()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        sys.stderr.write(f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure("feedback", platform.process.log_level, platform.process.log_format)
    from headrace_feedback.app import build

    asyncio.run(build(settings, platform).serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
