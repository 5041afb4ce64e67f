"""Benchmarks: each measures a bar beside its limit or its rival in the same run, arms interleaved, CPU time first.

`headrace bench NAME --json FILE` runs one; the figures of this repository are in tests/bench/README.md.
"""

from headrace_local.bench.report import BenchReport, Row

__all__ = ["BenchReport", "Row"]
