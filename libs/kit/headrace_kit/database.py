"""PostgreSQL through SQLAlchemy and asyncpg: one schema per service, one transaction per unit of work."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    cast,
    func,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.types import UserDefinedType

from headrace_kit.errors import Retryable

# SQLSTATE classes that another try may cure: connection, rollback by the server, resources, shutdown.
_RETRYABLE = ("08", "40", "53", "57", "58", "55P03")


def kit_tables(metadata: MetaData) -> None:
    """The plumbing's three tables, in each service's own schema."""
    Table(
        "outbox",
        metadata,
        Column("id", BigInteger, Identity(always=True), primary_key=True),
        Column("topic", Text, nullable=False),
        Column("key", LargeBinary),
        Column("value", LargeBinary),
        Column("headers", JSON, nullable=False),  # not JSONB, which refuses a NUL in a dead letter's headers
        Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    )
    Table(
        "inbox",
        metadata,
        Column("topic", Text, primary_key=True),
        Column("project", Text, primary_key=True),
        Column("event_id", Text, primary_key=True),
        Column("hash", LargeBinary, nullable=False),
        Column("seen_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    )
    Table(
        "consumer_offset",
        metadata,
        Column("topic", Text, primary_key=True),
        Column("partition", Integer, primary_key=True),
        Column("next", BigInteger, nullable=False),
    )


class JsonText(UserDefinedType[str]):
    r"""JSON in and out as text, as it came. Takes \u0000 inside strings, which people type and JSONB refuses."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """The driver would parse it."""
        return cast(column, Text)


def async_url(url: str) -> str:
    """Any PostgreSQL URL as SQLAlchemy's for asyncpg; a unix socket given as `?host=/dir` stays one."""
    return make_url(url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


class Database:
    """One service's schema. Tables are unqualified: the search path is set when a connection opens."""

    def __init__(self, url: str, schema: str, pool_size: int = 5) -> None:
        self.schema = schema
        self.engine: AsyncEngine = create_async_engine(
            async_url(url),
            pool_size=pool_size,
            max_overflow=5,
            pool_pre_ping=True,
            connect_args={
                "server_settings": {"search_path": schema, "application_name": f"headrace-{schema}"},
                "timeout": 5,
            },
        )
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncSession]:
        """One transaction: committed when the block ends, rolled back when it raises.

        Raises Retryable where the database is away or asks for another try; other database errors are bugs.
        """
        try:
            async with self._sessions() as session, session.begin():
                yield session
        except (OperationalError, InterfaceError, DBAPIError) as error:
            if is_transient(error):
                raise Retryable(f"the database did not take it: {error.orig!r}") from error
            raise
        except (ConnectionError, TimeoutError, PoolTimeout) as error:
            raise Retryable(f"the database cannot be reached: {error!r}") from error

    async def ping(self) -> str | None:
        """None when a query works, else why it does not."""
        try:
            async with self.begin() as session:
                await session.execute(select(1))
        except Retryable as error:
            return str(error)
        return None

    async def close(self) -> None:
        await self.engine.dispose()


def is_transient(error: DBAPIError) -> bool:
    """Whether another try may succeed, by SQLSTATE; a lost connection has none and counts."""
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state is None:
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return str(state).startswith(_RETRYABLE)
