"""Feedback, opinions, the server's sequence, and the plumbing's tables."""

import sqlalchemy as sa
from alembic import op

from headrace_kit.database import JsonText, kit_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    plumbing = sa.MetaData()
    kit_tables(plumbing)
    plumbing.create_all(op.get_bind(), checkfirst=False)
    op.execute(sa.schema.CreateSequence(sa.Sequence("feedback_sequence")))
    op.create_table(
        "feedback",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("metric_name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event", JsonText, nullable=False),
        sa.PrimaryKeyConstraint("project", "id", name="feedback_pkey"),
    )
    op.create_index(
        "feedback_opinion", "feedback", ["project", "target", "metric_name", "source", "revision"], unique=True
    )
    op.create_table(
        "opinion",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("metric_name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("project", "target", "metric_name", "source", name="opinion_pkey"),
    )


def downgrade() -> None:
    op.drop_table("opinion")
    op.drop_table("feedback")
    op.execute(sa.schema.DropSequence(sa.Sequence("feedback_sequence")))
    for table in ("outbox", "inbox", "consumer_offset"):
        op.drop_table(table)
