"""The supervisor as a process of its own: ``python -m headrace_local ROOT OPTIONS`` (JSON); `up` starts it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path


def main() -> int:
    from headrace_local.options import StackOptions, layout
    from headrace_local.stack import ANOTHER_RUNS, StackError, run
    from headrace_local.state import ProcessState, is_supervised

    root = Path(sys.argv[1])

    def log(text: str) -> None:
        print(f"{datetime.now(tz=UTC):%Y-%m-%d %H:%M:%S} {text}", flush=True)

    def on_progress(process: ProcessState) -> None:
        details = f" pid {process.pid}" if process.pid else ""
        details += f" after {process.seconds} s" if process.status == "ready" else ""
        details += f" (restart {process.restarts})" if process.restarts else ""
        details += f": {process.error}" if process.error else ""
        log(f"{process.name} {process.status}{details}")

    if is_supervised(layout(root)):
        return ANOTHER_RUNS
    try:
        run(root, StackOptions.from_json(json.loads(sys.argv[2])), on_progress)
    except StackError as error:
        log(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
