"""What can be wrong with a run, said in one sentence. These end a run; they are not bugs."""


class RunFault(Exception):
    """A run cannot go on, and trying it again unchanged would end the same way."""


class UnknownRecipe(RunFault):
    """The policy names a recipe that this version of the code does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no recipe {name!r}; known are {', '.join(known)}")


class UnknownObjective(RunFault):
    """The recipe names an objective that is not registered."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no objective {name!r}; known are {', '.join(known)}")


class BrokenManifest(RunFault):
    """Files of a run do not agree with the hashes in its manifest."""


class BadParent(RunFault):
    """The parent adapter cannot be continued: other shape, other base model, or not finite."""


class Diverged(RunFault):
    """A loss or a gradient stopped being a finite number."""


class Cancelled(RunFault):
    """Somebody asked the trainer to stop, or its worker is gone."""
