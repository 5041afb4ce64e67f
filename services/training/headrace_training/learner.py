"""A run in memory: examples, batches, and one step function that everything that trains goes through."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from headrace_training.anchors import Anchors
from headrace_training.core.dataset import Sample
from headrace_training.core.faults import Diverged
from headrace_training.core.schedule import batches, micro_batches, rate
from headrace_training.objectives.protocol import Encode, Example, Objective, Scored
from headrace_training.recipes import Recipe
from headrace_training.scoring import completion_logprobs, completion_mask, longest, padded


@dataclass(frozen=True)
class StepReport:
    """One optimiser step, as it goes into progress.jsonl."""

    step: int
    steps: int
    loss: float
    parts: dict[str, float]
    """Parts of the loss, each the mean over the examples that it is made of."""
    importance_mean: float
    """Mean ratio of the policy to the one that sampled, over tokens; 1 where nothing was sampled."""
    effective_share: float
    """Effective sample size of these ratios as a share of their number."""
    kl_behaviour: float
    """k3 estimate of KL(behaviour ‖ policy), nats a token."""
    kl_base: float
    """k3 estimate of KL(policy ‖ base), nats a token."""
    masked_share: float
    """Sampled tokens outside the band of ratios."""
    grad_norm: float
    learning_rate: float
    tokens_per_second: float
    """Tokens computed, prompts with them, by wall time."""

    def row(self) -> dict[str, float]:
        """Flat, for one line of JSON."""
        own = {k: v for k, v in vars(self).items() if k != "parts"}
        return {**own, **{f"loss_{name}": value for name, value in self.parts.items()}}


class Learner:
    """An adapter being trained. Deterministic: same weights, samples, recipe and seed, same result."""

    def __init__(
        self, model: PeftModel, tokenizer: PreTrainedTokenizerBase, objective: Objective, recipe: Recipe
    ) -> None:
        self.model, self.objective, self.recipe = model, objective, recipe
        self.pad: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self.encode: Encode = encoder(tokenizer)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=recipe.weight_decay
        )
        self.anchors = Anchors(model, tokenizer, recipe.anchors_per_step) if recipe.anchor_weight else None
        self.base: dict[int, torch.Tensor] = {}

    def run(self, samples: Sequence[Sample], seed: int) -> Iterator[StepReport]:
        """Every step of the run, one at a time; nothing is learned between two of them."""
        torch.manual_seed(seed)
        examples = self.objective.examples(samples, self.encode)
        typical = statistics.median([len(s.completion_token_ids) for s in samples if s.completion_token_ids] or [1])
        plan = batches([e.passes for e in examples], self.recipe.batch_size, seed)
        lengths = [len(e.sample.prompt_token_ids) + len(e.completion) for e in examples]
        for step, batch in enumerate(plan):
            parts = micro_batches(batch, lengths, self.recipe.micro_batch_size)
            yield self.step([[(i, examples[i]) for i in part] for part in parts], step, len(plan), float(typical))

    def step(self, parts: Sequence[Sequence[tuple[int, Example]]], step: int, steps: int, typical: float) -> StepReport:
        """One optimiser step over a batch cut into micro-batches of (index, example); Diverged if it is not finite."""
        begun, recipe = time.perf_counter(), self.recipe
        learning_rate = rate(step, steps, recipe.learning_rate, recipe.warmup_steps, recipe.final_rate)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        weight = sum(e.weight for part in parts for _, e in part)
        loss, sums, counts, ratios = (
            0.0,
            dict[str, float](),
            dict[str, float](),
            _Ratios(recipe.mask_low, recipe.mask_high),
        )
        self.model.train()
        for part in parts:
            scored = self.score(part)
            share = self.objective.loss(scored, weight, typical)
            if not math.isfinite(share.total.item()):
                raise Diverged(f"the loss of step {step} is {share.total.item()}")
            share.total.backward()  # type: ignore[no-untyped-call, unused-ignore]
            loss += share.total.item()
            for name, value in share.parts.items():
                sums[name] = sums.get(name, 0.0) + value
                counts[name] = counts.get(name, 0.0) + share.counts[name]
            ratios.add(scored)
        if self.anchors is not None:
            anchor = self.anchors.divergence(step)
            (recipe.anchor_weight * anchor).backward()  # type: ignore[no-untyped-call, unused-ignore]
            sums["anchor"], counts["anchor"] = anchor.item(), 1.0
            loss += recipe.anchor_weight * anchor.item()
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, recipe.max_grad_norm))
        if not math.isfinite(norm):
            raise Diverged(f"the gradient of step {step} is {norm}")
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        tokens = sum(len(e.sample.prompt_token_ids) + len(e.completion) for part in parts for _, e in part)
        return StepReport(
            step=step,
            steps=steps,
            loss=loss,
            parts={name: value / max(1.0, counts[name]) for name, value in sums.items()},
            grad_norm=norm,
            learning_rate=learning_rate,
            tokens_per_second=tokens / (time.perf_counter() - begun),
            **ratios.summary(),
        )

    def score(self, part: Sequence[tuple[int, Example]]) -> Scored:
        """Forward passes over a micro-batch."""
        examples = tuple(e for _, e in part)
        logp_nt = completion_logprobs(self.model, examples, self.pad)
        width, device = longest(examples), logp_nt.device
        behaviour_nt = torch.stack(
            [
                row.detach() if e.behaviour is None else padded([e.behaviour], width, device)[0]
                for e, row in zip(examples, logp_nt, strict=True)
            ]
        )
        base_nt = self.base_logprobs(part, logp_nt)
        return Scored(examples, logp_nt, base_nt, behaviour_nt, completion_mask(examples, device))

    def base_logprobs(self, part: Sequence[tuple[int, Example]], logp_nt: torch.Tensor) -> torch.Tensor:
        """Under the base model: the stored ones where the base model sampled, else computed once a run.

        What a person wrote is not held near the base model; there the row is the policy's own.
        """
        missing = [(i, e) for i, e in part if i not in self.base and not e.written and e.sample.policy_version > 0]
        if missing:
            with torch.no_grad(), self.model.disable_adapter():
                rows = completion_logprobs(self.model, [e for _, e in missing], self.pad)
            for (i, e), row in zip(missing, rows, strict=True):
                self.base[i] = row[len(row) - len(e.completion) :]
        result = logp_nt.detach().clone()
        for row, (i, e) in zip(result, part, strict=True):
            if i in self.base:
                row[len(row) - len(e.completion) :] = self.base[i]
            elif e.behaviour is not None:
                row[len(row) - len(e.completion) :] = torch.tensor(e.behaviour, device=row.device)
        return result


class _Ratios:
    """Sums over the sampled tokens of a batch, for the metrics of a step."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.n = self.ratio = self.square = self.behaviour = self.base = self.masked = 0.0

    def add(self, scored: Scored) -> None:
        sampled_n = torch.tensor([not e.written for e in scored.examples], device=scored.mask_nt.device)
        at = scored.mask_nt & sampled_n[:, None]
        logp, behaviour, base = scored.logp_nt.detach()[at], scored.behaviour_nt[at], scored.base_nt[at]
        ratio, gap = (logp - behaviour).clamp(-20, 20).exp(), (base - logp).clamp(-20, 20)
        self.n += len(logp)
        self.ratio += float(ratio.sum())
        self.square += float((ratio**2).sum())
        self.behaviour += float((ratio - 1 - ratio.log()).sum())
        self.base += float((gap.exp() - 1 - gap).sum())
        self.masked += float(((ratio <= self.low) | (ratio >= self.high)).sum())

    def summary(self) -> dict[str, float]:
        n = max(1.0, self.n)
        return {
            "importance_mean": self.ratio / n if self.n else 1.0,
            "effective_share": self.ratio**2 / (n * self.square) if self.square else 1.0,
            "kl_behaviour": self.behaviour / n,
            "kl_base": self.base / n,
            "masked_share": self.masked / n,
        }


def encoder(tokenizer: PreTrainedTokenizerBase) -> Encode:
    """Text of an answer → ids with the end token, which the engine stops at too."""
    end = int(tokenizer.eos_token_id)
    return lambda text: (*tokenizer(text.strip(), add_special_tokens=False)["input_ids"], end)


Observer = Callable[[StepReport], None]
