"""The routing state of a policy and its next states. Each differs from the one before by one epoch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Route:
    """Version numbers only; what they stand for is in the table of versions."""

    epoch: int
    champion: int
    previous: int | None = None
    load: tuple[int, ...] = ()

    def versions(self) -> set[int]:
        return {self.champion, *self.load} | ({self.previous} if self.previous is not None else set())

    def role(self, version: int) -> str | None:
        """What a version is in this route; None where it is nothing."""
        if version == self.champion:
            return "champion"
        if version == self.previous:
            return "previous"
        return "candidate" if version in self.load else None

    def with_candidate(self, version: int) -> "Route":
        """Engines load it too. The same route where they do already."""
        if version == 0 or version in self.versions():
            return self
        return replace(self, epoch=self.epoch + 1, load=(*self.load, version))

    def without_candidate(self, version: int) -> "Route":
        """Engines need not keep it. The same route where they did not anyway."""
        if version not in self.load:
            return self
        return replace(self, epoch=self.epoch + 1, load=tuple(v for v in self.load if v != version))

    def promoted(self, version: int) -> "Route":
        """A new champion; the old one stays loaded as the way back."""
        return Route(self.epoch + 1, version, self.champion, tuple(v for v in self.load if v != version))

    def rolled_back(self, version: int, before: int | None) -> "Route":
        """An old champion again; `before` is the way back from it."""
        return Route(
            self.epoch + 1, version, before, tuple(v for v in self.load if v not in (version, self.champion, before))
        )


def way_back(retired: Iterable[tuple[int, int]], *, until: int, leaving: Iterable[int]) -> int | None:
    """The newest champion from before `until` that is not among `leaving`; None where there is none.

    `retired` are (version, epoch that last made it champion) of versions in state retired.
    """
    left = set(leaving)
    candidates = [(since, version) for version, since in retired if version not in left and since <= until]
    return max(candidates)[1] if candidates else None
