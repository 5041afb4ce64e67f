from hypothesis import given
from hypothesis import strategies as st

from headrace_training.core.baseline import baselines
from tests.unit.training.samples import sample

rewards = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(rewards, st.data())
def test_a_baseline_does_not_depend_on_the_samples_own_reward(values, data):
    at = data.draw(st.integers(0, len(values) - 1))
    before = baselines([sample(i, reward=v) for i, v in enumerate(values)], 4.0)
    values[at] = data.draw(st.floats(0, 1))
    after = baselines([sample(i, reward=v) for i, v in enumerate(values)], 4.0)
    assert abs(before[at] - after[at]) < 1e-9


@given(rewards)
def test_a_baseline_is_a_reward(values):
    assert all(0 <= b <= 1 for b in baselines([sample(i, reward=v) for i, v in enumerate(values)], 4.0))


def test_with_nobody_to_compare_with_the_baseline_is_one_half():
    assert baselines([sample()], 4.0) == [0.5]


def test_a_segment_with_many_events_has_its_own_baseline():
    good = [sample(i, segment="good", reward=1.0) for i in range(50)]
    bad = [sample(i, segment="bad", reward=0.0) for i in range(50)]
    result = baselines(good + bad, 4.0)
    assert result[0] > 0.9
    assert result[-1] < 0.1


def test_versions_are_compared_with_their_own():
    old = [sample(i, policy_version=0, reward=0.0) for i in range(30)]
    new = [sample(i, policy_version=1, reward=1.0) for i in range(30)]
    result = baselines(old + new, 4.0)
    assert result[0] < 0.2
    assert result[-1] > 0.8


def test_corrections_without_a_reward_count_for_nothing():
    judged = [sample(i, reward=float(i % 2)) for i in range(10)]
    corrected = [sample(i, reward=None, demonstration="so") for i in range(10)]
    assert baselines(judged, 4.0) == baselines(judged + corrected, 4.0)[:10]
