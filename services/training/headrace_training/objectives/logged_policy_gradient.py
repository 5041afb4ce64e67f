"""Single-sample policy gradient from stored logprobs: one answer a prompt, one thumb an answer, late.

What production gives is logged: an answer sampled some versions ago by a known policy, and a reward for it. So there
is no group to compare with (the baseline is `core/baseline.py`), and the gradient is corrected for the policy having
moved on: importance weights, truncated at 2 for liked answers and at 1 for disliked ones (TOPR, arXiv 2503.14286), and
tokens outside a band around a ratio of one masked (SAO, arXiv 2607.07508). Disliked answers are damped: pushing one
down says little about where to go, and its gradient grows without bound as the answer becomes unlikely.

Corrections (demonstrations) join the same step as length-normalised cross-entropy. They need no importance weight,
because no policy sampled them.
"""

import math
from collections.abc import Sequence

import torch

from headrace_training.core.baseline import baselines
from headrace_training.core.dataset import Sample
from headrace_training.objectives.protocol import Encode, Example, Loss, Scored
from headrace_training.recipes import Recipe


class LoggedPolicyGradient:
    """The objective called `logged_policy_gradient`."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def examples(self, samples: Sequence[Sample], encode: Encode) -> list[Example]:
        """Liked and disliked answers with their advantage, then corrections."""
        recipe = self.recipe
        result = []
        corrections = sum(s.demonstration is not None for s in samples)
        corrected = max(1, min(recipe.demonstration_passes, round(recipe.demonstration_uses / max(1, corrections))))
        for sample, baseline in zip(samples, baselines(samples, recipe.baseline_strength), strict=True):
            if sample.reward is not None and sample.weight > 0:
                advantage = max(-recipe.max_advantage, min(recipe.max_advantage, sample.reward - baseline))
                liked = advantage > 0
                passes = self.passes(sample, recipe.passes if liked else recipe.negative_passes)
                factor = recipe.positive_weight if liked else recipe.negative_damping
                if abs(advantage) >= recipe.min_advantage and passes and factor and sample.completion_token_ids:
                    tokens, logprobs = sample.completion_token_ids, sample.logprobs
                    result.append(Example(sample, tokens, logprobs, advantage, sample.weight * factor, passes))
            if sample.demonstration is not None and recipe.demonstration_passes and recipe.demonstration_weight:
                weight = recipe.demonstration_weight
                result.append(Example(sample, encode(sample.demonstration), None, 0.0, weight, corrected))
        return result

    def passes(self, sample: Sample, fresh: int) -> int:
        """Passes over an answer, fewer where it is of an earlier version than the one being continued."""
        return math.ceil(fresh * self.recipe.stale_share) if sample.staleness else fresh

    def loss(self, scored: Scored, batch_weight: float, typical_length: float) -> Loss:
        """See the protocol. Parts: `policy`, `demonstration`, `kl_base`."""
        device = scored.logp_nt.device
        sampled_n = torch.tensor([not e.written for e in scored.examples], device=device)
        advantage_n = torch.tensor([e.advantage for e in scored.examples], device=device)
        weight_n = torch.tensor([e.weight for e in scored.examples], device=device)
        length_n = scored.mask_nt.sum(1)

        scale_n = weight_n / batch_weight
        # Unbiased by length up to the typical one; above it an answer counts as one, and less where it is very long.
        per_token_n = torch.clamp(2 * typical_length / length_n, max=1.0) / length_n.clamp(min=typical_length)
        gain_n = self.policy_loss(scored.logp_nt, scored.behaviour_nt, advantage_n, scored.mask_nt)
        policy_n = torch.where(sampled_n, gain_n * per_token_n, 0.0)
        written_n = torch.where(sampled_n, 0.0, -(scored.logp_nt * scored.mask_nt).sum(1) / length_n)
        kl_n = torch.where(
            sampled_n, reverse_kl(scored.logp_nt, scored.base_nt, scored.behaviour_nt, scored.mask_nt) / length_n, 0.0
        )
        total = (scale_n * (policy_n + written_n)).sum() + self.recipe.kl_base * kl_n.sum() / batch_weight
        sampled, written = float(sampled_n.sum()), float((~sampled_n).sum())
        return Loss(
            total,
            {"policy": policy_n.sum().item(), "demonstration": written_n.sum().item(), "kl_base": kl_n.sum().item()},
            {"policy": sampled, "demonstration": written, "kl_base": sampled},
        )

    def policy_loss(
        self, logp_nt: torch.Tensor, behaviour_nt: torch.Tensor, advantage_n: torch.Tensor, mask_nt: torch.Tensor
    ) -> torch.Tensor:
        """Sum over tokens of -w·A·log π, with w a constant: shape [n].

        Where the policy has not moved, w is 1 and this is REINFORCE.
        """
        recipe = self.recipe
        ratio_nt = (logp_nt.detach() - behaviour_nt).exp()
        bound_n1 = torch.where(advantage_n > 0, recipe.truncate_positive, recipe.truncate_negative)[:, None]
        kept_nt = mask_nt & (ratio_nt > recipe.mask_low) & (ratio_nt < recipe.mask_high)
        weight_nt = torch.minimum(ratio_nt, bound_n1) * kept_nt
        return -(weight_nt * advantage_n[:, None] * logp_nt).sum(1)


def reverse_kl(
    logp_nt: torch.Tensor, base_nt: torch.Tensor, behaviour_nt: torch.Tensor, mask_nt: torch.Tensor
) -> torch.Tensor:
    """Sum over tokens of an estimate of KL(π ‖ base) whose gradient is that of the divergence itself: shape [n].

    k3 of the ratio base/π, weighted by π/behaviour with its gradient (without that weight the gradient would be that
    of another divergence, see DeepSeek-V3.2's report). The weight is cut at 2, where it stops carrying a gradient.
    """
    weight_nt = (logp_nt - behaviour_nt).clamp(-20.0, 20.0).exp().clamp(max=2.0)
    gap_nt = (base_nt - logp_nt).clamp(-20.0, 20.0)
    return (weight_nt * (gap_nt.exp() - gap_nt - 1.0) * mask_nt).sum(1)
