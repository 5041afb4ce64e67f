"""Creates the bucket where it is missing: `python -m headrace_kit.create_bucket`. Running it again changes nothing."""

import asyncio
import sys

from headrace_kit.errors import Retryable
from headrace_kit.objects import S3Objects
from headrace_kit.settings import ObjectSettings


async def create(settings: ObjectSettings) -> None:
    """Raises Retryable where the store refuses or cannot be reached."""
    await S3Objects(settings).ensure_bucket()


if __name__ == "__main__":
    chosen = ObjectSettings()
    try:
        asyncio.run(create(chosen))
    except Retryable as problem:
        sys.exit(str(problem))
    sys.stdout.write(f"the bucket {chosen.bucket} is there\n")
