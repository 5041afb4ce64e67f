"""Prometheus metrics of gateway and agent."""

from prometheus_client import Counter, Gauge, Histogram

INFERENCES = Counter("headrace_inferences", "Inferences that came to their end", ["policy", "state"])
FALLBACKS = Counter("headrace_fallbacks", "Answers by another version than the routed one", ["policy"])
REFUSED = Counter("headrace_gateway_refused", "Requests refused before admission", ["code"])
LATENCY = Histogram("headrace_inference_seconds", "Seconds from admission to the end", ["policy"])
FIRST_TOKEN = Histogram("headrace_time_to_first_token_seconds", "Seconds from admission to the first token", ["policy"])
IN_FLIGHT = Gauge("headrace_inferences_in_flight", "Inferences between admission and end")
SPOOL_PENDING = Gauge("headrace_spool_pending_bytes", "Bytes of records not yet acknowledged by the broker")
SPOOL_DROPPED = Counter("headrace_spool_dropped", "Records that the spool could not take")
ADAPTERS = Gauge("headrace_agent_adapters", "Adapters on this replica", ["state"])
ENGINE_UP = Gauge("headrace_agent_engine_up", "1 while the engine answers")
