"""What must not change: general text on which the adapter is held to the base model.

A policy learns from a few dozen answers of one kind, and an update that small in data is not small in effect: without
a hold, perplexity on everything else rises with each version. The full divergence KL(base ‖ policy) over the vocabulary
on a few general exchanges costs one short forward pass a step and needs neither sampling nor labels.
"""

from collections.abc import Sequence

import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

EXCHANGES: tuple[tuple[str, str], ...] = (
    (
        "Why is the sky blue?",
        "Air scatters short waves of sunlight more than long ones, so blue light reaches us from every side.",
    ),
    (
        "Write a line about autumn.",
        "The last leaves let go one by one, and the garden learns to be quiet again.",
    ),
    (
        "What is 12 times 7?",
        "12 times 7 is 84, because 10 times 7 is 70 and 2 times 7 is 14.",
    ),
    (
        "Name three uses of copper.",
        "1. Electrical wires\n2. Water pipes\n3. Coins and cooking pots",
    ),
    (
        "Who wrote Don Quixote?",
        "Don Quixote was written by Miguel de Cervantes and first published in 1605 in Madrid.",
    ),
    (
        "How do plants eat?",
        "Plants make sugar from water and carbon dioxide with the energy of light; this is called photosynthesis.",
    ),
    (
        "Translate 'good morning' into French.",
        "In French, 'good morning' is 'bonjour'. It is used from the morning until the evening.",
    ),
    (
        "What does a compiler do?",
        "A compiler reads a program in one language and writes an equivalent program in another, often machine code.",
    ),
    (
        "Explain inflation.",
        "Inflation is a general rise of prices: the same amount of money buys fewer goods than it did a year before.",
    ),
    (
        "Give me advice for a job interview.",
        "Read about the company, prepare two stories about your work, and ask a question of your own at the end.",
    ),
    (
        "How far away is the Moon?",
        "On average the Moon is about 384,400 kilometres from Earth, roughly thirty times the Earth's diameter.",
    ),
    (
        "What is a sonnet?",
        "A sonnet is a poem of fourteen lines, usually in iambic pentameter, with a fixed pattern of rhymes.",
    ),
)


class Anchors:
    """The exchanges as tokens, and the base model's distribution on them, computed once a run."""

    def __init__(self, model: PeftModel, tokenizer: PreTrainedTokenizerBase, share: int) -> None:
        self.model, self.share = model, share
        self.ids = [_tokens(tokenizer, question, answer) for question, answer in EXCHANGES]
        self.base: dict[int, torch.Tensor] = {}

    def divergence(self, step: int) -> torch.Tensor:
        """Mean KL(base ‖ policy), nats a token, over the `share` exchanges whose turn it is at this step."""
        turn = [(step * self.share + k) % len(self.ids) for k in range(self.share)]
        return torch.stack([self._one(i) for i in turn]).mean()

    def _one(self, index: int) -> torch.Tensor:
        if index not in self.base:
            with torch.no_grad(), self.model.disable_adapter():
                self.base[index] = self._logprobs(self.ids[index])
        base = self.base[index]
        return (base.exp() * (base - self._logprobs(self.ids[index]))).sum(-1).mean()

    def _logprobs(self, tokens: Sequence[int]) -> torch.Tensor:
        ids = torch.tensor([list(tokens)], device=next(self.model.parameters()).device)
        logits: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits[0, -ANSWER:].float()
        return logits.log_softmax(-1)


ANSWER = 24
"""Positions from the end at which the distributions are compared: about the length of the answers above."""


def _tokens(tokenizer: PreTrainedTokenizerBase, question: str, answer: str) -> tuple[int, ...]:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    if tokenizer.chat_template is None:
        return tuple(tokenizer(f"{question}\n{answer}", add_special_tokens=False)["input_ids"])
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
