"""Policies, versions, routes, reports, replicas, proofs, keys, audit."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from headrace_kit.database import kit_tables

revision = "0001"
down_revision = None

WHEN = sa.DateTime(timezone=True)


def upgrade() -> None:
    plumbing = sa.MetaData()
    kit_tables(plumbing)
    plumbing.create_all(op.get_bind(), checkfirst=False)
    op.create_table(
        "policy",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("base_model", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("updated_at", WHEN, nullable=False),
        sa.Column("last_version", sa.Integer, nullable=False),
        sa.Column("fencing_token", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "policy_revision",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("at", WHEN, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
    )
    op.create_table(
        "version",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("object_key", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("engine_model", sa.Text, nullable=False),
        sa.Column("base_model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_at", WHEN, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text),
        sa.Column("lineage", sa.JSON),
        sa.Column("policy_digest", sa.Text, nullable=False),
        sa.Column("policy_revision", sa.Integer, nullable=False),
        sa.Column("registered_at", WHEN, nullable=False),
        sa.Column("champion_at", WHEN),
        sa.Column("champion_epoch", sa.BigInteger),
        sa.Column("promoted_by", sa.Text),
        sa.Column("promoted_because", sa.Text),
        sa.Column("pending", sa.JSON),
    )
    op.create_index("version_digest", "version", ["policy", "digest"], unique=True)
    op.create_table(
        "route",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("champion", sa.Integer, nullable=False),
        sa.Column("previous", sa.Integer),
        sa.Column("load", ARRAY(sa.Integer), nullable=False),
    )
    op.create_table(
        "report",
        sa.Column("evaluation_id", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("received_at", WHEN, nullable=False),
    )
    op.create_index("report_version", "report", ["policy", "version"])
    op.create_table(
        "replica",
        sa.Column("replica", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("observed_at", WHEN, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
    )
    op.create_table(
        "proof",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("replica", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, primary_key=True),
        sa.Column("at", WHEN, nullable=False),
        sa.Column("probe", sa.JSON),
    )
    op.create_table(
        "api_key",
        sa.Column("prefix", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("scopes", ARRAY(sa.Text), nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", WHEN, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("at", WHEN, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("policy", sa.Text),
        sa.Column("version", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
    op.create_index("audit_policy", "audit", ["policy", "version"])
