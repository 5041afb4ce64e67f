"""In which order a suite is asked, and after how many cases the evidence is looked at."""

import hashlib
import random

LOOK_EVERY = 24
"""Cases between two looks: enough for guards to mean something, few enough to save a suite's second half."""


def looks(cases: int, candidate_digest: str) -> list[list[int]]:
    """Numbers of all cases, in an order that depends on nothing but the candidate, cut into looks.

    Suites come sorted by topic; whoever stops early must not have asked one topic alone.
    """
    order = list(range(cases))
    seed = int.from_bytes(hashlib.sha256(f"looks:{candidate_digest}".encode()).digest()[:8], "big")
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    return [order[at : at + LOOK_EVERY] for at in range(0, cases, LOOK_EVERY)]
