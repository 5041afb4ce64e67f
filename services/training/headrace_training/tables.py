"""Tables of the schema `training`. Unqualified: the search path says where they are."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    Sequence,
    Table,
    Text,
    text,
)

from headrace_kit.database import kit_tables

# Documents are json and not jsonb: jsonb refuses the NUL that a user may put into a text.
METADATA = MetaData()
kit_tables(METADATA)
WHEN = DateTime(timezone=True)

FENCING = Sequence("fencing_token", metadata=METADATA)
"""One for all runs, so that of two writers of a policy the later one has the larger token."""

SAMPLE = Table(
    "sample",
    METADATA,
    Column("project", Text, primary_key=True),
    Column("trajectory_id", Text, primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("policy", Text, nullable=False),
    Column("base_model", Text, nullable=False),
    Column("body", JSON, nullable=False),  # rundir.Sample without its staleness
    Column("useful", Boolean, nullable=False),
    Column("mass", Double, nullable=False),  # how much of an event it counts for
    Column("uses", Integer, nullable=False),  # runs that it took part in since it last said something new
    Column("since", WHEN, nullable=False),  # when it last said something new
    Column("spec_digest", Text, nullable=False),
    Index("sample_new", "policy", "since", postgresql_where=text("useful AND uses = 0")),
    Index("sample_policy", "policy", "since"),
)
POLICY = Table(
    "policy",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("spec", JSON, nullable=False),
)
ROUTE = Table(
    "route",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("body", JSON, nullable=False),  # the whole route-changed
)
RUN = Table(
    "run",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("base_model", Text, nullable=False),
    Column("state", Text, nullable=False),  # queued, running, or an exit reason
    Column("because", Text, nullable=False),  # why it was started
    Column("recipe", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("parent_version", Integer, nullable=False),  # 0 is the base model
    Column("parent_digest", Text, nullable=False),
    Column("parent_key", Text, nullable=False),
    Column("created_at", WHEN, nullable=False),
    Column("started_at", WHEN),
    Column("ended_at", WHEN),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text),
    Column("lease_until", WHEN),
    Column("fencing_token", BigInteger, nullable=False),
    Column("manifest_digest", Text),
    Column("manifest_key", Text),
    Column("samples", Integer, nullable=False),
    Column("spec_digest", Text, nullable=False),
    Column("progress", JSON(none_as_null=True)),  # the newest line of progress.jsonl
    Column("digest", Text),
    Column("object_key", Text),
    Column("size_bytes", BigInteger),
    Column("reason", Text, nullable=False),
    Column("metrics", JSON(none_as_null=True)),
    Column("routed_at", WHEN),  # when a route first named its adapter
    Index("run_active", "policy", unique=True, postgresql_where=text("state IN ('queued', 'running')")),
    Index("run_policy", "policy", "created_at"),
)
RUN_SAMPLE = Table(
    "run_sample",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("project", Text, nullable=False),
    Column("trajectory_id", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Index("run_sample_trajectory", "project", "trajectory_id"),
)
