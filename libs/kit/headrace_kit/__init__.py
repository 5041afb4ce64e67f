"""Plumbing that every service stands on, with no word of the domain."""
