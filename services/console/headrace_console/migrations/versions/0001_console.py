"""The read model, and the plumbing's tables."""

import sqlalchemy as sa
from alembic import op

from headrace_kit.database import kit_tables

revision = "0001"
down_revision = None

WHEN = sa.DateTime(timezone=True)


def need(name, kind):
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    plumbing = sa.MetaData()
    kit_tables(plumbing)
    plumbing.create_all(op.get_bind(), checkfirst=False)
    op.create_table(
        "inference",
        sa.Column("inference_id", sa.Text, primary_key=True),
        need("episode_id", sa.Text),
        sa.Column("correlation_id", sa.Text),
        need("policy", sa.Text),
        need("version", sa.Integer),
        need("variant", sa.Text),
        need("state", sa.Text),
        need("fallback", sa.Boolean),
        need("completion_tokens", sa.Integer),
        need("cost_usd", sa.Float),
        need("latency_s", sa.Float),
        need("question", sa.Text),
        need("answer", sa.Text),
        need("occurred_at", WHEN),
    )
    op.create_index("inference_of_policy", "inference", ["policy", "version"])
    op.create_index("inference_of_episode", "inference", ["episode_id"])
    op.create_index("inference_of_correlation", "inference", ["correlation_id"])
    op.create_table(
        "feedback",
        sa.Column("feedback_id", sa.Text, primary_key=True),
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("inference_id", sa.Text),
        sa.Column("episode_id", sa.Text),
        sa.Column("correlation_id", sa.Text),
        need("metric_name", sa.Text),
        need("value", sa.Text),
        sa.Column("positive", sa.Boolean),
        need("comment", sa.Text),
        need("source_kind", sa.Text),
        need("recorded_at", WHEN),
    )
    op.create_index("feedback_by_time", "feedback", ["recorded_at"])
    op.create_table(
        "trajectory",
        sa.Column("trajectory_id", sa.Text, primary_key=True),
        need("revision", sa.Integer),
        need("spec_digest", sa.Text),
        need("policy", sa.Text),
        need("version", sa.Integer),
        sa.Column("reward", sa.Float),
        need("teaches", sa.Boolean),
        need("occurred_at", WHEN),
    )
    op.create_index("trajectory_of_policy", "trajectory", ["policy", "occurred_at"])
    op.create_table(
        "run",
        sa.Column("run_id", sa.Text),
        sa.Column("digest", sa.Text),
        need("policy", sa.Text),
        need("parent_version", sa.Integer),
        need("samples", sa.Integer),
        need("recipe", sa.Text),
        need("occurred_at", WHEN),
        sa.PrimaryKeyConstraint("run_id", "digest", name="run_pkey"),
    )
    op.create_table(
        "version",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        need("digest", sa.Text),
        need("parent_version", sa.Integer),
        need("run_id", sa.Text),
        need("occurred_at", WHEN),
    )
    op.create_table(
        "evaluation",
        sa.Column("evaluation_id", sa.Text, primary_key=True),
        need("policy", sa.Text),
        need("version", sa.Integer),
        need("champion_version", sa.Integer),
        need("verdict", sa.Text),
        need("because", sa.Text),
        need("cases", sa.Integer),
        need("candidate_score", sa.Float),
        need("champion_score", sa.Float),
        need("e_value", sa.Float),
        need("occurred_at", WHEN),
    )
    op.create_index("evaluation_of_version", "evaluation", ["policy", "version"])
    op.create_table(
        "route",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True),
        need("champion", sa.Integer),
        sa.Column("previous", sa.Integer),
        sa.Column("canary", sa.Integer),
        need("canary_share", sa.Float),
        need("candidates", sa.JSON),
        need("occurred_at", WHEN),
    )
    op.create_table(
        "policy",
        sa.Column("policy", sa.Text, primary_key=True),
        need("revision", sa.Integer),
        need("digest", sa.Text),
        need("base_model", sa.Text),
        need("trigger_events", sa.Integer),
        need("occurred_at", WHEN),
    )
    op.create_table(
        "replica",
        sa.Column("replica", sa.Text, primary_key=True),
        need("sequence", sa.BigInteger),
        need("healthy", sa.Boolean),
        need("base_model", sa.Text),
        need("engine_version", sa.Text),
        need("adapters", sa.JSON),
        need("occurred_at", WHEN),
    )
    op.create_table(
        "dead_letter",
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("offset", sa.BigInteger, primary_key=True),
        need("service", sa.Text),
        need("code", sa.Text),
        need("reason", sa.Text),
    )


def downgrade() -> None:
    for table in (
        "dead_letter",
        "replica",
        "policy",
        "route",
        "evaluation",
        "version",
        "run",
        "trajectory",
        "feedback",
        "inference",
        "outbox",
        "inbox",
        "consumer_offset",
    ):
        op.drop_table(table)
