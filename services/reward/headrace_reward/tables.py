"""Tables of the reward schema."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from headrace_kit.database import JsonText, kit_tables

METADATA = MetaData()
kit_tables(METADATA)

INFERENCE = Table(
    "inference",
    METADATA,
    Column("inference_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("episode_id", Text, nullable=False),
    Column("correlation_id", Text),
    Column("policy", Text, nullable=False),
    Column("trace", Text, nullable=False),
    Column("stored_at", DateTime(timezone=True), nullable=False),
    Column("event", JsonText, nullable=False),
    PrimaryKeyConstraint("inference_id", "project", name="inference_pkey"),
    Index("inference_episode", "episode_id"),
)
Index("inference_correlation", INFERENCE.c.correlation_id, postgresql_where=INFERENCE.c.correlation_id.is_not(None))
"""Every inference, whole."""

OPINION = Table(
    "opinion",
    METADATA,
    Column("target", Text, nullable=False),
    Column("metric_name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("chosen", Text),
    Column("rejected", Text),
    Column("matched", Boolean, nullable=False),
    Column("seen_at", DateTime(timezone=True), nullable=False),
    Column("document", JsonText, nullable=False),
    PrimaryKeyConstraint("target", "metric_name", "source", "project", name="opinion_pkey"),
)
"""The newest revision of each opinion; `matched` false is an orphan."""
Index("opinion_chosen", OPINION.c.chosen, postgresql_where=OPINION.c.chosen.is_not(None))
Index("opinion_rejected", OPINION.c.rejected, postgresql_where=OPINION.c.rejected.is_not(None))
Index("opinion_orphan", OPINION.c.seen_at, postgresql_where=~OPINION.c.matched)

TRAJECTORY = Table(
    "trajectory",
    METADATA,
    Column("inference_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("answered_at", DateTime(timezone=True), nullable=False),
    Column("completed", Boolean, nullable=False),
    Column("quality", Double),
    Column("tokens", Integer, nullable=False),
    Column("segment", Text),
    Column("scored", JsonText, nullable=False),
    Column("price", JsonText),
    Column("scored_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("inference_id", "project", name="trajectory_pkey"),
)
"""The newest revision of each trajectory; the newest judged ones of a policy are the state of its token price."""
Index(
    "trajectory_window",
    TRAJECTORY.c.project,
    TRAJECTORY.c.policy,
    TRAJECTORY.c.answered_at.desc(),
    TRAJECTORY.c.inference_id.desc(),
    postgresql_where=TRAJECTORY.c.quality.is_not(None) & TRAJECTORY.c.completed,
)

WAITING = Table(
    "waiting",
    METADATA,
    Column("inference_id", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("policy", Text, nullable=False),
    PrimaryKeyConstraint("project", "policy", "inference_id", name="waiting_pkey"),
)
"""Judged inferences whose policy is not known yet."""

POLICY = Table(
    "policy",
    METADATA,
    Column("project", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("reward", JsonText, nullable=False),
    PrimaryKeyConstraint("project", "policy", name="policy_pkey"),
)
"""The reward spec of each policy's newest revision."""

TOKEN_PRICE = Table(
    "token_price",
    METADATA,
    Column("project", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("pressure", Double, nullable=False),
    Column("median_accepted", Double),
    Column("judged", Integer, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("project", "policy", name="token_price_pkey"),
)
"""For people: what the last batch saw of a policy's token price. It is computed anew from the newest judged
trajectories each time, so no two processes can disagree about it."""

TALLY = Table(
    "tally",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)
"""Counts of what is not kept: expired orphans."""
