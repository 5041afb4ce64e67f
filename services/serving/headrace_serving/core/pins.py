"""Which version an episode has: a bounded map that forgets the longest unused."""

from collections import OrderedDict


class Pins:
    """At most `limit` episodes. An episode that was forgotten gets the version of its next request."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._versions: OrderedDict[tuple[str, str], int] = OrderedDict()

    def get(self, policy: str, episode: str) -> int | None:
        key = (policy, episode)
        if key not in self._versions:
            return None
        self._versions.move_to_end(key)
        return self._versions[key]

    def put(self, policy: str, episode: str, version: int) -> None:
        self._versions[policy, episode] = version
        self._versions.move_to_end((policy, episode))
        while len(self._versions) > self._limit:
            self._versions.popitem(last=False)
