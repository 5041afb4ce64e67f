"""What waits, and what is given up."""

from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_reward.tables import OPINION, TALLY, WAITING

EXPIRED = "orphans_expired"


class Upkeep:
    """Rows that have waited too long, and how many wait."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def expire(self, before: datetime) -> int:
        """Delete and count orphans that came before that time. The feedback service keeps what was said."""
        gone = await self._session.execute(
            delete(OPINION).where(~OPINION.c.matched, OPINION.c.seen_at < before).returning(OPINION.c.target)
        )
        count = len(gone.all())
        if count:
            new = insert(TALLY).values(name=EXPIRED, count=count)
            changed = {"count": TALLY.c.count + new.excluded["count"]}
            await self._session.execute(new.on_conflict_do_update(index_elements=["name"], set_=changed))
        return count

    async def expired(self) -> int:
        """Orphans given up since the beginning."""
        return await self._session.scalar(select(TALLY.c.count).where(TALLY.c.name == EXPIRED)) or 0

    async def orphans(self) -> int:
        """Opinions whose inference is not known yet."""
        return await self._session.scalar(select(func.count()).select_from(OPINION).where(~OPINION.c.matched)) or 0

    async def waiting(self) -> int:
        """Judged inferences whose policy is not known yet."""
        return await self._session.scalar(select(func.count()).select_from(WAITING)) or 0
