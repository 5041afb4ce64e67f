"""The join and the reward: pure."""
