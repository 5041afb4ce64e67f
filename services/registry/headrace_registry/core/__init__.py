"""Decisions about versions and routes: values in, values out."""
