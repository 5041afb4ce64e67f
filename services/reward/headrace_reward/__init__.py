"""The reward service: feedback meets its inference, in any order, and becomes a reward with a breakdown."""
