"""Serving: the gateway on the request path, and the agent beside each engine."""
