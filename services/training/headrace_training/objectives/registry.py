"""Objectives by the name that recipes use."""

from headrace_training.core.faults import UnknownObjective
from headrace_training.objectives.logged_policy_gradient import LoggedPolicyGradient
from headrace_training.objectives.protocol import Factory, Objective
from headrace_training.recipes import Recipe

OBJECTIVES: dict[str, Factory] = {"logged_policy_gradient": LoggedPolicyGradient}


def objective(recipe: Recipe) -> Objective:
    """The objective of a recipe; raises UnknownObjective with the names that exist."""
    try:
        factory = OBJECTIVES[recipe.objective]
    except KeyError:
        raise UnknownObjective(recipe.objective, sorted(OBJECTIVES)) from None
    return factory(recipe)
