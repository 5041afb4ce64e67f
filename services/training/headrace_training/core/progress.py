"""A run's steps as the few numbers that its checkpoint carries."""

from collections.abc import Sequence
from statistics import fmean

LAST = ("kl_base", "kl_behaviour", "loss_demonstration", "loss_policy", "loss_anchor")
MEAN = ("loss", "importance_mean", "effective_share", "masked_share", "grad_norm", "tokens_per_second")


def summary(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over the run of what fluctuates, and the last quarter's mean of what moves in one direction."""
    tail = rows[-max(1, len(rows) // 4) :]
    result = {name: fmean(row[name] for row in rows) for name in MEAN}
    result.update(
        {name: fmean(row[name] for row in tail if name in row) for name in LAST if any(name in r for r in tail)}
    )
    return {**result, "grad_norm_max": max(row["grad_norm"] for row in rows)}
