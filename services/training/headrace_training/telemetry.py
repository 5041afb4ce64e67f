"""Prometheus metrics of training; label `policy`, never a user or an inference."""

from prometheus_client import Counter, Histogram

RUNS = Counter("headrace_training_runs", "Runs that ended", ["policy", "exit_reason"])
RUN_SECONDS = Histogram(
    "headrace_training_run_seconds",
    "Seconds from a worker's claim of a run to its end",
    ["policy"],
    buckets=(1, 5, 15, 30, 60, 120, 300, 900, 3600),
)
LEASES_LOST = Counter("headrace_training_leases_lost", "Runs that a worker had to give up to another one")
