"""Forward passes: logprobs of completion tokens, and of nothing else.

Sequences are padded on the left, so completions end at the right edge and the output layer, the dearest one of a small
model, runs only over the last positions.
"""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from headrace_training.objectives.protocol import Example


def longest(examples: Sequence[Example]) -> int:
    """Completion tokens of the longest example: the t of every tensor of these examples."""
    return max(len(e.completion) for e in examples)


def padded(rows: Sequence[Sequence[float]], width: int, device: torch.device) -> torch.Tensor:
    """Rows of different length as one tensor [n, width], zeros on the left."""
    return torch.tensor([[0.0] * (width - len(row)) + list(row) for row in rows], device=device)


def completion_mask(examples: Sequence[Example], device: torch.device) -> torch.Tensor:
    """True at completion tokens: [n, t]."""
    return padded([[1.0] * len(e.completion) for e in examples], longest(examples), device).bool()


def completion_logprobs(model: PreTrainedModel, examples: Sequence[Example], pad: int) -> torch.Tensor:
    """Logprob of each completion token, with the temperature that the sample was drawn with: [n, t], 0 at padding."""
    device = next(model.parameters()).device
    sequences = [[*e.sample.prompt_token_ids, *e.completion] for e in examples]
    width, tail = max(map(len, sequences)), longest(examples)
    ids_nl = torch.tensor([[pad] * (width - len(s)) + s for s in sequences], device=device)
    attention_nl = padded([[1.0] * len(s) for s in sequences], width, device).long()
    position_nl = (attention_nl.cumsum(1) - 1).clamp(min=0)
    out = model(
        input_ids=ids_nl,
        attention_mask=attention_nl,
        position_ids=position_nl,
        logits_to_keep=tail + 1,
        use_cache=False,
    )
    temperature_n = torch.tensor([1.0 if e.written else e.sample.temperature or 1.0 for e in examples], device=device)
    logits_ntv = out.logits[:, :-1].float() / temperature_n[:, None, None]
    target_nt = ids_nl[:, -tail:]
    chosen_nt = logits_ntv.gather(2, target_nt[:, :, None]).squeeze(2)
    logp_nt: torch.Tensor = chosen_nt - logits_ntv.logsumexp(2)
    return torch.where(completion_mask(examples, device), logp_nt, 0.0)
