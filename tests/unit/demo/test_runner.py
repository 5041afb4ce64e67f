import pytest
import yaml
from importlib import resources

from headrace_local.demo.errors import DemoError
from headrace_local.demo.options import POLICY, SUITE, DemoOptions
from headrace_local.demo.runner import MARK, fresh_root, git_revision
from headrace_schemas import PolicySpec


def test_the_policy_file_is_one_that_headrace_accepts_and_tells_the_learner_nothing_of_the_style():
    spec = PolicySpec.model_validate(
        yaml.safe_load(resources.files("headrace_local.demo").joinpath("support.yaml").read_text())
    )
    assert (spec.policy, spec.gate.suite, spec.train.trigger.events) == (POLICY, SUITE, 32)
    assert {part.kind for part in spec.reward.parts} == {"feedback"}


def test_the_demo_empties_its_own_folder_and_no_other(tmp_path):
    root = fresh_root(tmp_path / "demo")
    (root / "old").write_text("x")
    assert fresh_root(root) == root
    assert [p.name for p in root.iterdir()] == [MARK]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    with pytest.raises(DemoError, match="holds something that is not the demo's"):
        fresh_root(other)
    assert (other / "thesis.txt").exists()


def test_too_few_events_are_refused_with_the_mend():
    with pytest.raises(ValueError, match="give at least 32"):
        DemoOptions(events=8)


def test_the_revision_is_a_revision_or_nothing():
    assert git_revision() == "" or len(git_revision().rstrip("+")) >= 12
