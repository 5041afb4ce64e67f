import pytest

from headrace_local.demo.errors import DemoError
from headrace_local.demo.following import follow, outcome_of, step_of

ROW = {"version": 4, "role": None, "state": "registered", "verdict": None, "ready_on": [], "reason": ""}


def row(**changes):
    return ROW | changes


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, None),
        ({"state": "evaluated", "verdict": "promote"}, None),
        ({"state": "evaluated", "verdict": "hold"}, "held"),
        ({"state": "rejected", "verdict": "reject"}, "rejected"),
        ({"state": "rejected"}, "rejected"),
        ({"state": "champion", "role": "champion"}, "promoted"),
    ],
)
def test_what_became_of_a_version(changes, outcome):
    assert outcome_of(row(**changes)) == outcome


def test_what_a_version_waits_for_is_said_in_words():
    assert step_of(row()) == "the engine loads and proves it"
    assert step_of(row(ready_on=["engine"])) == "the gate asks the private suite"


class Company:
    """Registry and trainer as a script: each poll takes the next of what is given, the last one stays."""

    def __init__(self, versions, runs=((),)):
        self._versions, self._runs = list(versions), list(runs)

    async def versions(self):
        return list(self._versions.pop(0) if len(self._versions) > 1 else self._versions[0])

    async def runs(self):
        return list(self._runs.pop(0) if len(self._runs) > 1 else self._runs[0]), "20 of 32 new events"


async def followed(company, steps=None, training_s=5.0, gate_s=5.0):
    steps = [] if steps is None else steps
    return await follow(company, 3, {"r1"}, training_s, gate_s, lambda *step: steps.append(step))


async def test_a_version_is_followed_from_its_run_to_its_promotion():
    old = row(version=3, state="champion", role="champion")
    running = {"run_id": "r2", "state": "running", "progress": {"step": 3, "steps": 12}}
    company = Company(
        [[old], [row(), old], [row(ready_on=["e"]), old], [row(state="champion", role="champion"), old]],
        [[running]],
    )
    steps = []
    end = await followed(company, steps)
    assert (end.outcome, end.row["version"]) == ("promoted", 4)
    assert steps[0] == ("training: step 3 of 12", 0.25)
    assert steps[-1] == ("v4: the gate asks the private suite", None)


async def test_a_run_that_diverged_ends_the_wait_and_an_older_one_does_not():
    old = {"run_id": "r1", "state": "failed", "reason": "old"}
    company = Company(
        [[]], [[old], [old], [{"run_id": "r2", "state": "diverged", "reason": "the loss is not finite"}, old]]
    )
    end = await followed(company)
    assert (end.row, end.outcome) == (None, "diverged: the loss is not finite")


async def test_time_running_out_is_a_sentence():
    with pytest.raises(DemoError, match="No new version after 0 s, the trainer says: 20 of 32 new events"):
        await followed(Company([[]]), training_s=0)
    with pytest.raises(DemoError, match=r"v4 has no outcome after 0 s \(the engine loads"):
        await followed(Company([[row()]]), gate_s=0)
