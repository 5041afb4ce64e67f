"""Prometheus metrics of the feedback service."""

from prometheus_client import Counter

ACCEPTED = Counter("headrace_feedback_accepted", "Pieces of feedback accepted, new or replayed", ["how"])
REFUSED = Counter("headrace_feedback_refused", "Pieces of feedback refused, by code", ["code"])
