"""Inferences, opinions, trajectories, policies, and the plumbing's tables."""

import sqlalchemy as sa
from alembic import op

from headrace_kit.database import JsonText, kit_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    plumbing = sa.MetaData()
    kit_tables(plumbing)
    plumbing.create_all(op.get_bind(), checkfirst=False)
    op.create_table(
        "inference",
        sa.Column("inference_id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("episode_id", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.Text),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("trace", sa.Text, nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event", JsonText, nullable=False),
        sa.PrimaryKeyConstraint("inference_id", "project", name="inference_pkey"),
    )
    op.create_index("inference_episode", "inference", ["episode_id"])
    op.create_index(
        "inference_correlation",
        "inference",
        ["correlation_id"],
        postgresql_where=sa.text("correlation_id IS NOT NULL"),
    )
    op.create_table(
        "opinion",
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("metric_name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("chosen", sa.Text),
        sa.Column("rejected", sa.Text),
        sa.Column("matched", sa.Boolean, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", JsonText, nullable=False),
        sa.PrimaryKeyConstraint("target", "metric_name", "source", "project", name="opinion_pkey"),
    )
    op.create_index("opinion_chosen", "opinion", ["chosen"], postgresql_where=sa.text("chosen IS NOT NULL"))
    op.create_index("opinion_rejected", "opinion", ["rejected"], postgresql_where=sa.text("rejected IS NOT NULL"))
    op.create_index("opinion_orphan", "opinion", ["seen_at"], postgresql_where=sa.text("NOT matched"))
    op.create_table(
        "trajectory",
        sa.Column("inference_id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed", sa.Boolean, nullable=False),
        sa.Column("quality", sa.Double),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("segment", sa.Text),
        sa.Column("scored", JsonText, nullable=False),
        sa.Column("price", JsonText),
        sa.Column("scored_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("inference_id", "project", name="trajectory_pkey"),
    )
    op.create_index(
        "trajectory_window",
        "trajectory",
        ["project", "policy", sa.text("answered_at DESC"), sa.text("inference_id DESC")],
        postgresql_where=sa.text("quality IS NOT NULL AND completed"),
    )
    op.create_table(
        "waiting",
        sa.Column("inference_id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project", "policy", "inference_id", name="waiting_pkey"),
    )
    op.create_table(
        "policy",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("reward", JsonText, nullable=False),
        sa.PrimaryKeyConstraint("project", "policy", name="policy_pkey"),
    )
    op.create_table(
        "token_price",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("pressure", sa.Double, nullable=False),
        sa.Column("median_accepted", sa.Double),
        sa.Column("judged", sa.Integer, nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("project", "policy", name="token_price_pkey"),
    )
    op.create_table(
        "tally",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for table in ("tally", "token_price", "policy", "waiting", "trajectory", "opinion", "inference"):
        op.drop_table(table)
    for table in ("outbox", "inbox", "consumer_offset"):
        op.drop_table(table)
