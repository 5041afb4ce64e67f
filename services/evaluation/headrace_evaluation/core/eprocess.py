"""Evidence by betting: an e-value for "the mean of these differences is above 0", valid whenever one looks.

Bet a share b of the money on each difference d in [-1, 1] at fair odds: the money becomes M·(1 + b·d). If E[d] ≤ 0, no
share makes money on average, so M is a nonnegative supermartingale for each b, and so is the mean of M over several b
that were fixed beforehand. By Ville's inequality M ever reaches 1/alpha with a probability of at most alpha, at the end
of a suite or in its midst (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting").
The product does not depend on the order of the cases.
"""

import math
from collections.abc import Sequence

SHARES = (0.25, 0.5, 0.75, 0.99)
"""Shares of the money that are bet, each with the same part of it. Below 1, so that one lost case cannot ruin all."""
LARGEST = 1e300
"""Reported in place of what no longer fits a double."""


def e_value(differences: Sequence[float]) -> float:
    """Money made from 1 by betting that the mean of `differences` is above 0. Each lies in [-1, 1].

    Raises ValueError for a difference outside, or one that is not a number.
    """
    if not all(-1.0 <= d <= 1.0 for d in differences):
        raise ValueError("a difference lies outside [-1, 1]")
    logs = [math.fsum(math.log1p(share * d) for d in differences) for share in SHARES]
    top = max(logs)
    log_mean = top + math.log(math.fsum(math.exp(x - top) for x in logs) / len(SHARES))
    return math.exp(log_mean) if log_mean < math.log(LARGEST) else LARGEST
