"""A policy as the registry keeps it: the file in force, and the counters that number and fence its versions."""

from datetime import datetime
from typing import NamedTuple

from headrace_schemas import PolicyChanged, PolicySpec
from headrace_schemas.base import Json


class Policy(NamedTuple):
    """One row of the table of policies."""

    policy: str
    project: str
    base_model: str
    revision: int
    digest: str
    spec: Json
    updated_at: datetime
    last_version: int
    """The newest version number given."""
    fencing_token: int
    """The highest one seen on a checkpoint."""

    def parsed(self) -> PolicySpec:
        return PolicySpec.model_validate(self.spec)

    def event(self) -> PolicyChanged:
        return PolicyChanged(
            project=self.project,
            occurred_at=self.updated_at,
            policy=self.policy,
            revision=self.revision,
            digest=self.digest,
            spec=self.spec,
        )


def first(spec: PolicySpec, at: datetime) -> Policy:
    """A policy that was never applied before."""
    return Policy(spec.policy, spec.project, spec.base_model, 1, spec.digest(), spec.canonical(), at, 0, 0)


def revised(policy: Policy, spec: PolicySpec, at: datetime) -> Policy | None:
    """The policy after another file; None where the file says the same.

    Raises ValueError where the file changes the base model although adapters stand on it.
    """
    if spec.digest() == policy.digest:
        return None
    if spec.base_model != policy.base_model and policy.last_version > 0:
        raise ValueError(
            f"the base model cannot become {spec.base_model}: v{policy.last_version} and its parents are adapters of "
            f"{policy.base_model}; apply the file under another policy name"
        )
    return policy._replace(
        project=spec.project,
        base_model=spec.base_model,
        revision=policy.revision + 1,
        digest=spec.digest(),
        spec=spec.canonical(),
        updated_at=at,
    )
