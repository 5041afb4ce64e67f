import pytest
from pydantic import ValidationError

from headrace_training.core.faults import UnknownRecipe
from headrace_training.recipes import DEFAULT, RECIPES, Recipe, recipe


def test_a_changed_number_is_another_digest():
    assert DEFAULT.digest != DEFAULT.model_copy(update={"passes": DEFAULT.passes + 1}).digest
    assert DEFAULT.digest == Recipe.model_validate_json(DEFAULT.model_dump_json()).digest


def test_a_recipe_is_frozen_and_knows_no_other_fields():
    with pytest.raises(ValidationError):
        DEFAULT.passes = 9
    with pytest.raises(ValidationError):
        Recipe(name="x", learning_speed=1)


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(UnknownRecipe, match="default"):
        recipe("defualt")
    assert recipe("default") is RECIPES["default"]
