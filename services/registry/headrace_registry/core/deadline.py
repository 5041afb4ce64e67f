"""How long a candidate may keep engines and training waiting."""

from datetime import datetime, timedelta

from headrace_registry.core.lifecycle import State
from headrace_registry.core.version import Version


def overdue(
    version: Version, *, manual: bool, champion_since: datetime | None, deadline: timedelta, now: datetime
) -> str | None:
    """None while it may wait; else why it is given up, in words.

    `manual`: the policy's promotions wait for people, who may take their time. `champion_since`: when today's champion
    became it, because then every candidate is judged anew.
    """
    if manual and version.state is State.EVALUATED and version.verdict == "promote" and version.pending is None:
        return None
    starts = [version.state_at, *([version.pending.at] if version.pending else []), *_known(champion_since)]
    if now - max(starts) <= deadline:
        return None
    minutes = f"{deadline.total_seconds() / 60:g} min"
    if version.pending is not None:
        return f"not ready on every live replica within {minutes} after the decision to {version.pending.kind} it"
    return f"no gate report within {minutes}: is the policy's suite pushed, and does an engine have the version ready?"


def _known(moment: datetime | None) -> list[datetime]:
    return [moment] if moment else []
