"""Tables of the schema `registry`. Unqualified: the search path says where they are."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, DateTime, Identity, Index, Integer, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from headrace_kit.database import kit_tables

# Documents are json and not jsonb: jsonb refuses the NUL that a user may put into a text.
METADATA = MetaData()
kit_tables(METADATA)
WHEN = DateTime(timezone=True)

POLICY = Table(
    "policy",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("base_model", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("updated_at", WHEN, nullable=False),
    Column("last_version", Integer, nullable=False),  # the newest number given
    Column("fencing_token", BigInteger, nullable=False),  # the highest one seen
)
POLICY_REVISION = Table(
    "policy_revision",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("at", WHEN, nullable=False),
    Column("by", Text, nullable=False),
)
VERSION = Table(
    "version",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("object_key", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("engine_model", Text, nullable=False),
    Column("base_model", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("state_at", WHEN, nullable=False),
    Column("reason", Text, nullable=False),  # of the state, in words
    Column("verdict", Text),  # of the newest report that was bound when it came
    Column("lineage", JSON(none_as_null=True)),  # the whole checkpoint-saved; null for the base model
    Column("policy_digest", Text, nullable=False),
    Column("policy_revision", Integer, nullable=False),
    Column("registered_at", WHEN, nullable=False),
    Column("champion_at", WHEN),  # when it last became champion
    Column("champion_epoch", BigInteger),  # the route's epoch that made it so
    Column("promoted_by", Text),
    Column("promoted_because", Text),
    Column("pending", JSON(none_as_null=True)),  # a move that waits for the engines
    Index("version_digest", "policy", "digest", unique=True),
)
ROUTE = Table(
    "route",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("champion", Integer, nullable=False),
    Column("previous", Integer),
    Column("load", ARRAY(Integer), nullable=False),
)
REPORT = Table(
    "report",
    METADATA,
    Column("evaluation_id", Text, primary_key=True),
    Column("policy", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("body", JSON, nullable=False),  # the whole evaluation-completed
    Column("received_at", WHEN, nullable=False),
    Index("report_version", "policy", "version"),
)
REPLICA = Table(
    "replica",
    METADATA,
    Column("replica", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("observed_at", WHEN, nullable=False),
    Column("body", JSON, nullable=False),  # the whole adapter-observed
)
PROOF = Table(
    "proof",
    METADATA,
    Column("policy", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("replica", Text, primary_key=True),
    Column("state", Text, primary_key=True),  # ready or failed: the first time of each
    Column("at", WHEN, nullable=False),
    Column("probe", JSON(none_as_null=True)),
)
API_KEY = Table(
    "api_key",
    METADATA,
    Column("prefix", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("salt", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_at", WHEN, nullable=False),
)
AUDIT = Table(
    "audit",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", WHEN, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("policy", Text),
    Column("version", Integer),
    Column("reason", Text, nullable=False),
    Column("details", JSON, nullable=False),
    Index("audit_policy", "policy", "version"),
)
