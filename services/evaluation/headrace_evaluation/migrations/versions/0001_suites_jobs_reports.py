"""What others said, suites, jobs, answers, reports."""

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
    for name, key in (("policy", "policy"), ("route", "policy"), ("replica", "replica")):
        op.create_table(
            name,
            sa.Column(key, sa.Text, primary_key=True),
            sa.Column("newness", sa.BigInteger, nullable=False),
            sa.Column("body", sa.JSON, nullable=False),
        )
    op.create_table(
        "candidate",
        sa.Column("policy", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
    )
    op.create_table(
        "suite",
        sa.Column("suite", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("cases", sa.Integer, nullable=False),
        sa.Column("max_tokens", sa.Integer, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("updated_at", WHEN, nullable=False),
        sa.Column("updated_by", sa.Text, nullable=False),
    )
    op.create_table(
        "suite_access",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("at", WHEN, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("suite_access_suite", "suite_access", ["suite"])
    op.create_table(
        "job",
        sa.Column("evaluation_id", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("comparison", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("claims", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("because", sa.Text, nullable=False),
        sa.Column("due_at", WHEN, nullable=False),
        sa.Column("created_at", WHEN, nullable=False),
    )
    op.create_index("job_due", "job", ["state", "due_at"])
    op.create_index("job_policy", "job", ["policy"])
    op.create_table(
        "answer",
        sa.Column("suite_digest", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("latency_s", sa.Float, nullable=False),
        sa.Column("at", WHEN, nullable=False),
    )
    op.create_table(
        "report",
        sa.Column("evaluation_id", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", WHEN, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
    )
    op.create_index("report_policy", "report", ["policy", "version"])
