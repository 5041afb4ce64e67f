"""Prometheus metrics of the plumbing: base units, few labels, never a user or an inference."""

from prometheus_client import Counter, Gauge, Histogram

RECORDS = Counter("headrace_records", "Records a consumer finished with", ["topic", "outcome"])
HANDLING = Histogram("headrace_handling_seconds", "Seconds of one transaction over a batch of records", ["topic"])
STOPPED = Gauge("headrace_partitions_stopped", "Partitions that a bug has stopped", ["topic"])
PAUSED = Gauge("headrace_partitions_paused", "Partitions that wait for something to come back", ["topic"])
PUBLISHED = Counter("headrace_published", "Records the outbox published", ["topic"])
PENDING = Gauge("headrace_outbox_pending", "Outbox rows not yet published, as last seen")
