from headrace_training.core.selection import selected
from headrace_training.recipes import DEFAULT
from tests.unit.training.samples import sample


def test_new_samples_and_older_liked_ones_and_corrections_are_taken_oldest_first():
    kept = [
        (sample(5, reward=0.0), 0),
        (sample(4, reward=1.0), 0),
        (sample(3, reward=0.0), 1),
        (sample(2, reward=1.0), 1),
        (sample(1, reward=None, demonstration="so"), 3),
        (sample(0, reward=1.0), DEFAULT.max_uses),
    ]
    assert [s.sample_id for s in selected(kept, DEFAULT, 0)] == ["s1", "s2", "s4", "s5"]


def test_replay_is_bounded_and_prefers_corrections():
    older = [(sample(i, reward=1.0), 1) for i in range(5)] + [(sample(9, reward=None, demonstration="so"), 1)]
    recipe = DEFAULT.model_copy(update={"replay_events": 2})
    assert [s.sample_id for s in selected(older, recipe, 0)] == ["s9", "s0"]


def test_a_run_takes_no_more_new_events_than_its_recipe_says():
    kept = [(sample(i), 0) for i in range(10)]
    recipe = DEFAULT.model_copy(update={"max_events": 3})
    assert [s.sample_id for s in selected(kept, recipe, 0)] == ["s2", "s1", "s0"]


def test_staleness_is_the_distance_to_the_version_that_is_continued():
    kept = [(sample(0, policy_version=5), 0), (sample(1, policy_version=2), 0)]
    assert [s.staleness for s in selected(kept, DEFAULT, 4)] == [2, 1]
