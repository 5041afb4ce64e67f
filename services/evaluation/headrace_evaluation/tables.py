"""Tables of the schema `evaluation`. Nothing of a suite's contents is in any of them but sealed."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from headrace_kit.database import kit_tables

METADATA = MetaData()
kit_tables(METADATA)
WHEN = DateTime(timezone=True)

POLICY = Table(
    "policy",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("newness", BigInteger, nullable=False),  # the revision
    Column("body", JSON, nullable=False),  # the whole policy-changed
)
ROUTE = Table(
    "route",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("newness", BigInteger, nullable=False),  # the epoch
    Column("body", JSON, nullable=False),  # the whole route-changed
)
REPLICA = Table(
    "replica",
    METADATA,
    Column("replica", Text, primary_key=True),
    Column("newness", BigInteger, nullable=False),  # the sequence
    Column("body", JSON, nullable=False),  # the whole adapter-observed
)
CANDIDATE = Table(
    "candidate",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("body", JSON, nullable=False),  # the whole adapter-registered
)
SUITE = Table(
    "suite",
    METADATA,
    Column("suite", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("cases", Integer, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", WHEN, nullable=False),
    Column("updated_by", Text, nullable=False),
)
ACCESS = Table(
    "suite_access",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", WHEN, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),  # pushed or opened
    Column("suite", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("why", Text, nullable=False),
    Index("suite_access_suite", "suite"),
)
JOB = Table(
    "job",
    METADATA,
    Column("evaluation_id", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("comparison", JSON, nullable=False),
    Column("state", Text, nullable=False),  # queued, running, done, superseded
    Column("claims", Integer, nullable=False),  # the fence: only the newest claim may finish
    Column("failures", Integer, nullable=False),
    Column("because", Text, nullable=False),  # of the last failure, in words
    Column("due_at", WHEN, nullable=False),  # queued: not before; running: the end of the lease
    Column("created_at", WHEN, nullable=False),
    Index("job_due", "state", "due_at"),
    Index("job_policy", "policy"),
)
ANSWER = Table(
    "answer",
    METADATA,
    Column("suite_digest", Text, primary_key=True),
    Column("subject", Text, primary_key=True),  # adapter digest, or base:<model>
    Column("number", Integer, primary_key=True),  # of the case in the suite
    Column("score", Float, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("latency_s", Float, nullable=False),
    Column("at", WHEN, nullable=False),
)
REPORT = Table(
    "report",
    METADATA,
    Column("evaluation_id", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", WHEN, nullable=False),
    Column("body", JSON, nullable=False),  # the whole evaluation-completed
    Index("report_policy", "policy", "version"),
)
