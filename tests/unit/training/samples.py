"""Samples for tests of the trainer."""

from headrace_training.core.dataset import Sample


def sample(n: int = 0, **fields) -> Sample:
    given = {
        "sample_id": f"s{n}",
        "inference_id": f"chatcmpl-{n}",
        "prompt_token_ids": (1, 2, 3),
        "completion_token_ids": (4, 5, 6),
        "logprobs": (-1.0, -2.0, -3.0),
        "reward": 1.0,
    }
    return Sample(**{**given, **fields})
