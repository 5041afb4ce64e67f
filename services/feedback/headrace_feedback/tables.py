"""Tables of the feedback schema."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    Table,
    Text,
)

from headrace_kit.database import JsonText, kit_tables

METADATA = MetaData()
kit_tables(METADATA)

FEEDBACK = Table(
    "feedback",
    METADATA,
    Column("project", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("target", Text, nullable=False),
    Column("metric_name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    Column("event", JsonText, nullable=False),
    PrimaryKeyConstraint("project", "id", name="feedback_pkey"),
    Index("feedback_opinion", "project", "target", "metric_name", "source", "revision", unique=True),
)
"""Every piece of feedback that was ever accepted; nothing is changed or deleted."""

OPINION = Table(
    "opinion",
    METADATA,
    Column("project", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("metric_name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    PrimaryKeyConstraint("project", "target", "metric_name", "source", name="opinion_pkey"),
)
"""The newest revision of each opinion; its row is the lock that orders revisions."""

SEQUENCE = Sequence("feedback_sequence", metadata=METADATA)
"""The server's order."""
