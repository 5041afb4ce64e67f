"""Free ports on loopback, the same ones again after a restart where nobody has taken them."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping

LOWEST, HIGHEST = 20000, 32000
"""Below the range that the kernel hands to outgoing connections, so that none of those takes a port of ours
between its choice and its use."""


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose(names: Iterable[str], remembered: Mapping[str, int] | None = None) -> dict[str, int]:
    """A free port for each name: the remembered one if it is still free, else a new one.

    Raises RuntimeError when no free port is found, which means that some thousand are taken.
    """
    remembered = remembered or {}
    dice = random.SystemRandom()
    chosen: dict[str, int] = {}
    for name in names:
        wanted = [remembered[name]] if name in remembered else []
        for port in [*wanted, *(dice.randrange(LOWEST, HIGHEST) for _ in range(1000))]:
            if port not in chosen.values() and is_free(port):
                chosen[name] = port
                break
        else:
            raise RuntimeError(f"no free port on 127.0.0.1 between {LOWEST} and {HIGHEST}")
    return chosen
