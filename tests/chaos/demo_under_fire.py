"""The demo while its processes are killed: `python tests/chaos/demo_under_fire.py --seed 13 --json FILE`

Every process of the stack is ended with SIGKILL once, one after another, while the demo's users ask and judge; the
supervisor starts each again. At the end the databases are read: each piece of feedback that was made durable (that is
what a 2xx means) must stand in the reward service's table, each judged inference must have its trajectory, and no
trajectory may have been scored twice under one revision. Exit status 0 means that all of it holds and the demo ended.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg

from headrace_local import stack

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "gateway",
    "reward",
    "feedback",
    "broker",
    "training",
    "registry",
    "postgres",
    "agent",
    "evaluation",
    "s3",
    "console",
    "vllm",
)


def kill_each(folder: Path, demo: subprocess.Popen, every_s: float) -> list[dict]:
    """Kill the processes in turn until all were killed or the demo has ended; what was killed, and when it was back."""
    killed: list[dict] = []
    while demo.poll() is None and ((state := stack.status(folder)) is None or state.phase != "ready"):
        time.sleep(1)
    time.sleep(every_s)
    for name in ORDER:
        if demo.poll() is not None:
            break
        state = stack.status(folder)
        pid = state.pids.get(name)
        if pid is None:
            continue
        os.kill(pid, signal.SIGKILL)
        at = time.monotonic()
        print(f"killed {name} ({pid})", flush=True)
        back = None
        while demo.poll() is None and time.monotonic() - at < 300:
            process = stack.status(folder).processes[name]
            if process.pid not in (None, pid) and process.status == "ready":
                back = time.monotonic() - at
                break
            time.sleep(0.2)
        print(f"{name} is back after {back and round(back, 1)} s", flush=True)
        killed.append({"process": name, "back_after_s": back and round(back, 2)})
        time.sleep(every_s)
    return killed


async def audit(url: str) -> dict[str, int]:
    """What must add up, read from the services' own tables."""
    c = await asyncpg.connect(url)
    counts = {
        "feedback_made_durable": "SELECT count(*) FROM feedback.feedback",
        "outbox_left": "SELECT (SELECT count(*) FROM feedback.outbox) + (SELECT count(*) FROM reward.outbox)"
        " + (SELECT count(*) FROM training.outbox) + (SELECT count(*) FROM registry.outbox)"
        " + (SELECT count(*) FROM evaluation.outbox)",
        "opinions_missing_from_reward": "SELECT count(*) FROM (SELECT DISTINCT project, target, metric_name, source"
        " FROM feedback.feedback EXCEPT SELECT project, target, metric_name, source FROM reward.opinion) missing",
        "judged_inferences_without_trajectory": "SELECT count(*) FROM reward.opinion o WHERE o.matched AND NOT EXISTS"
        " (SELECT FROM reward.trajectory t WHERE 'inference:' || t.inference_id = o.target)",
        "orphans": "SELECT count(*) FROM reward.opinion WHERE NOT matched",
        "trajectories": "SELECT count(*) FROM reward.trajectory",
        "trajectories_missing_from_training": "SELECT count(*) FROM (SELECT inference_id FROM reward.trajectory"
        " EXCEPT SELECT trajectory_id FROM training.sample) missing",
    }
    found = {name: await c.fetchval(query) for name, query in counts.items()}
    await c.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--events", type=int, default=256)
    parser.add_argument("--every", type=float, default=25.0, help="seconds of peace between two kills")
    parser.add_argument("--json", type=Path, default=Path("demo_under_fire.json"))
    parser.add_argument("--folder", type=Path, default=Path(".headrace-fire"))
    asked = parser.parse_args()
    figures = asked.json.with_suffix(".demo.json")
    command = [str(Path(sys.executable).with_name("headrace")), "demo", "--keep", "--seed", str(asked.seed)]
    command += ["--events", str(asked.events), "--json", str(figures), "--folder", str(asked.folder)]
    command += ["--report", str(asked.folder) + "-report"]
    began = time.monotonic()
    demo = subprocess.Popen(command, cwd=ROOT)
    try:
        killed = kill_each(ROOT / asked.folder, demo, asked.every)
        status = demo.wait()
        time.sleep(10)
        state = stack.status(ROOT / asked.folder)
        books = asyncio.run(audit(state.database_url.replace("postgresql+asyncpg", "postgresql")))
    finally:
        demo.terminate()
        stack.down(ROOT / asked.folder)
    shown = json.loads(figures.read_text()) if figures.exists() else {}
    wrong = {
        k: books[k]
        for k in books
        if k.startswith(("opinions_missing", "judged", "orphans", "outbox", "trajectories_missing")) and books[k]
    }
    report = {
        "killed": killed,
        "books": books,
        "demo_status": status,
        "seconds": round(time.monotonic() - began),
        "curve": shown.get("curve"),
        "failed_requests": shown.get("failed_requests"),
        "requests": shown.get("requests"),
    }
    asked.json.write_text(json.dumps(report, indent=2))
    print(json.dumps(report, indent=2))
    return 1 if wrong or not shown else 0


if __name__ == "__main__":
    sys.exit(main())
