"""Samples, policies, routes, runs and what each run learned from."""

import sqlalchemy as sa
from alembic import op

from headrace_kit.database import kit_tables

revision = "0001"
down_revision = None

WHEN = sa.DateTime(timezone=True)


def upgrade() -> None:
    plumbing = sa.MetaData()
    kit_tables(plumbing)
    plumbing.create_all(op.get_bind(), checkfirst=False)
    op.execute(sa.schema.CreateSequence(sa.Sequence("fencing_token")))
    op.create_table(
        "sample",
        sa.Column("project", sa.Text, primary_key=True),
        sa.Column("trajectory_id", sa.Text, primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("base_model", sa.Text, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("useful", sa.Boolean, nullable=False),
        sa.Column("mass", sa.Double, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("since", WHEN, nullable=False),
        sa.Column("spec_digest", sa.Text, nullable=False),
    )
    op.create_index("sample_new", "sample", ["policy", "since"], postgresql_where=sa.text("useful AND uses = 0"))
    op.create_index("sample_policy", "sample", ["policy", "since"])
    op.create_table(
        "policy",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
    )
    op.create_table(
        "route",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
    )
    op.create_table(
        "run",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("base_model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("because", sa.Text, nullable=False),
        sa.Column("recipe", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("parent_version", sa.Integer, nullable=False),
        sa.Column("parent_digest", sa.Text, nullable=False),
        sa.Column("parent_key", sa.Text, nullable=False),
        sa.Column("created_at", WHEN, nullable=False),
        sa.Column("started_at", WHEN),
        sa.Column("ended_at", WHEN),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", WHEN),
        sa.Column("fencing_token", sa.BigInteger, nullable=False),
        sa.Column("manifest_digest", sa.Text),
        sa.Column("manifest_key", sa.Text),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("spec_digest", sa.Text, nullable=False),
        sa.Column("progress", sa.JSON),
        sa.Column("digest", sa.Text),
        sa.Column("object_key", sa.Text),
        sa.Column("size_bytes", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("metrics", sa.JSON),
        sa.Column("routed_at", WHEN),
    )
    op.create_index(
        "run_active", "run", ["policy"], unique=True, postgresql_where=sa.text("state IN ('queued', 'running')")
    )
    op.create_index("run_policy", "run", ["policy", "created_at"])
    op.create_table(
        "run_sample",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("trajectory_id", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("run_sample_trajectory", "run_sample", ["project", "trajectory_id"])
