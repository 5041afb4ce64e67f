"""Tables of the schema `console`: one row for each fact that a page may need."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from headrace_kit.database import kit_tables

METADATA = MetaData()
kit_tables(METADATA)
WHEN = DateTime(timezone=True)


def _need(name: str, kind: type | DateTime) -> Column[object]:
    return Column(name, kind, nullable=False)


INFERENCE = Table(
    "inference",
    METADATA,
    Column("inference_id", Text, primary_key=True),
    _need("episode_id", Text),
    Column("correlation_id", Text),
    _need("policy", Text),
    _need("version", Integer),
    _need("variant", Text),
    _need("state", Text),
    _need("fallback", Boolean),
    _need("completion_tokens", Integer),
    _need("cost_usd", Float),
    _need("latency_s", Float),
    _need("question", Text),
    _need("answer", Text),
    _need("occurred_at", WHEN),
    Index("inference_of_policy", "policy", "version"),
    Index("inference_of_episode", "episode_id"),
    Index("inference_of_correlation", "correlation_id"),
)
FEEDBACK = Table(
    "feedback",
    METADATA,
    Column("feedback_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("inference_id", Text),
    Column("episode_id", Text),
    Column("correlation_id", Text),
    _need("metric_name", Text),
    _need("value", Text),
    Column("positive", Boolean),
    _need("comment", Text),
    _need("source_kind", Text),
    _need("recorded_at", WHEN),
    Index("feedback_by_time", "recorded_at"),
)
TRAJECTORY = Table(
    "trajectory",
    METADATA,
    Column("trajectory_id", Text, primary_key=True),
    _need("revision", Integer),
    _need("spec_digest", Text),
    _need("policy", Text),
    _need("version", Integer),
    Column("reward", Float),
    _need("teaches", Boolean),
    _need("occurred_at", WHEN),
    Index("trajectory_of_policy", "policy", "occurred_at"),
)
RUN = Table(
    "run",
    METADATA,
    Column("run_id", Text),
    Column("digest", Text),
    _need("policy", Text),
    _need("parent_version", Integer),
    _need("samples", Integer),
    _need("recipe", Text),
    _need("occurred_at", WHEN),
    PrimaryKeyConstraint("run_id", "digest", name="run_pkey"),
)
VERSION = Table(
    "version",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    _need("digest", Text),
    _need("parent_version", Integer),
    _need("run_id", Text),
    _need("occurred_at", WHEN),
)
EVALUATION = Table(
    "evaluation",
    METADATA,
    Column("evaluation_id", Text, primary_key=True),
    _need("policy", Text),
    _need("version", Integer),
    _need("champion_version", Integer),
    _need("verdict", Text),
    _need("because", Text),
    _need("cases", Integer),
    _need("candidate_score", Float),
    _need("champion_score", Float),
    _need("e_value", Float),
    _need("occurred_at", WHEN),
    Index("evaluation_of_version", "policy", "version"),
)
ROUTE = Table(
    "route",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("epoch", BigInteger, primary_key=True),
    _need("champion", Integer),
    Column("previous", Integer),
    Column("canary", Integer),
    _need("canary_share", Float),
    _need("candidates", JSON),
    _need("occurred_at", WHEN),
)
POLICY = Table(
    "policy",
    METADATA,
    Column("policy", Text, primary_key=True),
    _need("revision", Integer),
    _need("digest", Text),
    _need("base_model", Text),
    _need("trigger_events", Integer),
    _need("occurred_at", WHEN),
)
REPLICA = Table(
    "replica",
    METADATA,
    Column("replica", Text, primary_key=True),
    _need("sequence", BigInteger),
    _need("healthy", Boolean),
    _need("base_model", Text),
    _need("engine_version", Text),
    _need("adapters", JSON),
    _need("occurred_at", WHEN),
)
DEAD_LETTER = Table(
    "dead_letter",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    _need("service", Text),
    _need("code", Text),
    _need("reason", Text),
)
