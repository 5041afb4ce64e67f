"""Recipes: how a run learns. Hyper-parameters live here, versioned with the code, and never in settings.

A run is a function of its dataset manifest, its recipe and its parent, so a recipe is frozen and has a digest;
the digest of the recipe is on every checkpoint. A changed number is a new digest, and two versions of an adapter
that differ only in their recipe can be told apart years later.
"""

import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field

from headrace_training.core.faults import UnknownRecipe


class LoraShape(BaseModel):
    """The low-rank update: what the adapter's config will say, and what the serving agent's allow-list checks."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    rank: int = Field(16, ge=1, le=256)
    """Rank of the update; engines are started with at least this `max-lora-rank`."""
    alpha: int = Field(32, ge=1)
    """Scale: the update is multiplied by alpha / rank."""
    target_modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """All linear layers of a llama-shaped decoder; the output layer stays the base model's."""


class Recipe(BaseModel):
    """Everything that decides how a dataset becomes an adapter, save the dataset, the parent and the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """What a policy file says under `train.recipe`."""
    objective: str = "logged_policy_gradient"
    """Name in the registry of objectives."""
    lora: LoraShape = LoraShape()
    """Shape of a fresh adapter; a parent adapter of another shape is refused."""
    learning_rate: float = Field(3e-4, gt=0)
    """AdamW's rate after warm-up; the optimiser starts afresh with each run."""
    warmup_steps: int = Field(2, ge=0)
    """Optimiser steps over which the rate rises linearly."""
    final_rate: float = Field(0.1, ge=0, le=1)
    """The rate falls linearly to this share of `learning_rate` at the last step."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decay of the adapter's weights: a pull towards the base model that costs no forward pass."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Global norm to which gradients are clipped."""
    passes: int = Field(4, ge=1)
    """Passes over liked answers."""
    batch_size: int = Field(8, ge=1)
    """Examples in one optimiser step."""
    micro_batch_size: int = Field(8, ge=1)
    """Examples in one forward pass; changes memory, never the loss."""
    positive_weight: float = Field(1.0, gt=0)
    """Weight of examples with a positive advantage."""
    negative_damping: float = Field(0.3, ge=0)
    """Weight of examples with a negative advantage: an answer has one way to be liked and many to be disliked."""
    stale_share: float = Field(0.5, gt=0, le=1)
    """Passes over answers of another version than the parent, as a share of those over its own, rounded up."""
    negative_passes: int = Field(1, ge=0)
    """Passes over examples with a negative advantage."""
    min_advantage: float = Field(0.1, ge=0)
    """Examples whose advantage is smaller than this teach nothing and are not computed."""
    max_advantage: float = Field(3.0, gt=0)
    """Advantages are clipped to this size."""
    baseline_strength: float = Field(4.0, ge=0)
    """How many events the level above counts for in a level's baseline."""
    truncate_positive: float = Field(2.0, gt=0)
    """Upper bound of the importance weight where the advantage is positive."""
    truncate_negative: float = Field(1.0, gt=0)
    """Upper bound of the importance weight where the advantage is negative."""
    mask_low: float = Field(0.2, ge=0)
    """Tokens whose ratio to the behaviour policy is below this are masked."""
    mask_high: float = Field(4.0, gt=1)
    """Tokens whose ratio to the behaviour policy is above this are masked."""
    kl_base: float = Field(0.02, ge=0)
    """Weight of the KL divergence to the base model, per token of the sampled answers."""
    demonstration_weight: float = Field(1.5, ge=0)
    """Weight of a correction's cross-entropy against a thumb with an advantage of one."""
    demonstration_uses: int = Field(48, ge=0)
    """Uses of corrections in a run, shared among them: a few are learned thoroughly, many cost no more."""
    demonstration_passes: int = Field(16, ge=0)
    """Most passes over one correction."""
    anchor_weight: float = Field(1.0, ge=0)
    """Weight of the divergence from the base model on general text."""
    anchors_per_step: int = Field(1, ge=1)
    """Anchor exchanges computed at each step, in turn."""
    max_events: int = Field(512, ge=1)
    """New events that one run takes, newest first; the others wait for the next one."""
    replay_events: int = Field(32, ge=0)
    """Older corrections and liked answers that may join a run's new events, newest first."""
    max_uses: int = Field(4, ge=1)
    """Runs that one event may take part in."""

    def canonical(self) -> str:
        """The recipe as canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON, hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


DEFAULT = Recipe(name="default")

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DEFAULT,)}


def recipe(name: str) -> Recipe:
    """The recipe called `name`; raises UnknownRecipe with the names that exist."""
    try:
        return RECIPES[name]
    except KeyError:
        raise UnknownRecipe(name, sorted(RECIPES)) from None
