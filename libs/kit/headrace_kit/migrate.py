"""Alembic for each service's own schema: `python -m headrace_kit.migrate headrace_reward …`

A service's `migrations/env.py` is two lines that call `run_env`. Two processes that migrate at once take turns.
"""

import asyncio
import sys

from alembic import command, context
from alembic.config import Config
from sqlalchemy import Connection, MetaData, text

from headrace_kit.database import Database

_TURN = 0x48454144  # the advisory lock that migrations take turns on


def schema_of(package: str) -> str:
    """headrace_reward → reward"""
    return package.removeprefix("headrace_")


def _upgrade(connection: Connection, package: str) -> None:
    schema = schema_of(package)
    connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})
    connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    config = Config()
    config.set_main_option("script_location", f"{package}:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def upgrade(url: str, package: str) -> None:
    """Bring one service's schema to its newest revision; nothing happens where it is there already."""
    database = Database(url, schema_of(package))
    try:
        async with database.engine.begin() as connection:
            await connection.run_sync(_upgrade, package)
    finally:
        await database.close()


def run_env(metadata: MetaData) -> None:
    """What a service's migrations/env.py does."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


async def _main(packages: list[str]) -> None:
    from headrace_kit.settings import DatabaseSettings

    url = DatabaseSettings().url.get_secret_value()
    for package in packages:
        await upgrade(url, package)
        sys.stdout.write(f"{package}: schema {schema_of(package)} is up to date\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
