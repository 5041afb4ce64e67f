"""Decisions of the gate: values in, values out."""
