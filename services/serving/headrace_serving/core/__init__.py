"""Decisions of gateway and agent as pure functions: no I/O, clock, randomness, framework, logging."""
