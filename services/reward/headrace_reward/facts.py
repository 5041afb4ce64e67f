"""What a batch of records brought, sorted by what it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_reward.core.join import Book, PolicyKey, Spec
from headrace_reward.core.opinions import InferenceKey, Opinion
from headrace_schemas import InferenceCompleted


@dataclass(frozen=True, slots=True)
class Arrival:
    """One fact, with the event id and the trace that it came with."""

    fact: "InferenceCompleted | Opinion | tuple[PolicyKey, Spec]"
    cause: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Arrivals of one transaction, and inferences to look at again."""

    arrivals: Sequence[Arrival] = ()
    again: Sequence[InferenceKey] = ()

    @property
    def inferences(self) -> list[InferenceCompleted]:
        return [a.fact for a in self.arrivals if isinstance(a.fact, InferenceCompleted)]

    @property
    def opinions(self) -> list[Opinion]:
        return [a.fact for a in self.arrivals if isinstance(a.fact, Opinion)]

    @property
    def specs(self) -> list[tuple[PolicyKey, Spec]]:
        return [a.fact for a in self.arrivals if isinstance(a.fact, tuple)]

    @property
    def policies(self) -> list[PolicyKey]:
        return [key for key, _ in self.specs]

    @property
    def traces(self) -> dict[InferenceKey, str]:
        return {
            InferenceKey(a.fact.project, a.fact.inference_id): a.trace
            for a in self.arrivals
            if isinstance(a.fact, InferenceCompleted)
        }

    def enter(self, book: Book) -> None:
        """In the order of their arrival."""
        for arrival in self.arrivals:
            if isinstance(arrival.fact, InferenceCompleted):
                book.add_inference(arrival.fact, arrival.cause)
            elif isinstance(arrival.fact, Opinion):
                book.add_opinion(arrival.fact, arrival.cause)
            else:
                book.add_spec(*arrival.fact, arrival.cause)
        book.revisit(self.again)
