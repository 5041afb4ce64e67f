"""Prometheus metrics of the reward service."""

from prometheus_client import Counter, Gauge

SCORED = Counter("headrace_reward_scored", "Revisions of trajectories published", ["policy", "what"])
ORPHANS = Gauge("headrace_reward_orphans", "Opinions whose inference is not known yet")
WAITING = Gauge("headrace_reward_waiting", "Judged inferences whose policy is not known yet")
EXPIRED = Counter("headrace_reward_orphans_expired", "Orphans given up after their time")
