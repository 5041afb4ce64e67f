"""Decisions of the training service: values in, values out."""
