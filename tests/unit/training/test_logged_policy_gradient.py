import pytest
import torch

from headrace_training.objectives.logged_policy_gradient import LoggedPolicyGradient, reverse_kl
from headrace_training.objectives.protocol import Example, Scored
from headrace_training.recipes import DEFAULT
from tests.unit.training.samples import sample

RECIPE = DEFAULT.model_copy(update={"kl_base": 0.0})


def scored(logp, behaviour=None, advantages=(1.0,), weights=(1.0,), mask=None, base=None, written=(False,)):
    behaviour = logp.detach().clone() if behaviour is None else behaviour
    mask = torch.ones_like(logp, dtype=torch.bool) if mask is None else mask
    examples = tuple(
        Example(sample(i), (1,) * logp.shape[1], None if w else (0.0,) * logp.shape[1], a, weight, 1)
        for i, (a, weight, w) in enumerate(zip(advantages, weights, written, strict=True))
    )
    return Scored(examples, logp, logp.detach() if base is None else base, behaviour, mask)


def gradient(batch, recipe=RECIPE, typical=2.0):
    weight = sum(e.weight for e in batch.examples)
    LoggedPolicyGradient(recipe).loss(batch, weight, typical).total.backward()
    return batch.logp_nt.grad


def test_where_the_policy_has_not_moved_the_gradient_is_reinforces():
    logp = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    assert torch.allclose(gradient(scored(logp, advantages=(0.7,))), torch.full((1, 2), -0.7 / 2))


def test_the_importance_weight_is_cut_at_two_for_liked_and_at_one_for_disliked_answers():
    moved = torch.tensor([[-1.0, -1.0]]).log_softmax(1)
    for advantage, bound in ((1.0, 2.0), (-1.0, 1.0)):
        logp = moved.clone().requires_grad_()
        grad = gradient(scored(logp, moved - torch.tensor(3.0).log(), (advantage,)))
        assert torch.allclose(grad, torch.full((1, 2), -advantage * bound / 2))


def test_exactly_the_tokens_outside_the_band_are_masked():
    ratios = torch.tensor([[0.1, 0.21, 1.0, 3.9, 4.1]])
    logp = torch.zeros(1, 5, requires_grad=True)
    grad = gradient(scored(logp, -ratios.log()), typical=5.0)
    assert (grad != 0).tolist() == [[False, True, True, True, False]]


def test_a_disliked_answer_that_became_unlikely_is_left_alone():
    logits = torch.zeros(1, 4, requires_grad=True)
    sizes = []
    for shift in (0.0, 1.0, 1.4):
        logp = (logits - torch.tensor([[shift, 0, 0, 0]])).log_softmax(1)[:, :1]
        behaviour = torch.full((1, 1), 0.25).log()
        batch = scored(logp, behaviour, (-1.0,))
        (grad,) = torch.autograd.grad(LoggedPolicyGradient(RECIPE).loss(batch, 1.0, 1.0).total, logits)
        sizes.append(grad.abs().sum().item())
    assert sizes == sorted(sizes, reverse=True)
    logp = (logits - torch.tensor([[5.0, 0, 0, 0]])).log_softmax(1)[:, :1]
    batch = scored(logp, torch.full((1, 1), 0.25).log(), (-1.0,))
    (grad,) = torch.autograd.grad(LoggedPolicyGradient(RECIPE).loss(batch, 1.0, 1.0).total, logits)
    assert grad.abs().sum() == 0


def test_padding_has_no_gradient():
    logp = torch.tensor([[0.0, -2.0]], requires_grad=True)
    mask = torch.tensor([[False, True]])
    assert gradient(scored(logp, mask=mask), DEFAULT)[0, 0] == 0


def test_a_correction_is_cross_entropy_per_token():
    logp = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    batch = scored(logp, advantages=(0.0,), written=(True,))
    assert torch.allclose(gradient(batch, typical=17.0), torch.full((1, 2), -0.5))


def test_a_very_long_answer_cannot_dominate_a_step():
    sizes = []
    for length in (10, 20, 80):
        logp = torch.full((1, length), -1.0, requires_grad=True)
        sizes.append(gradient(scored(logp), typical=10.0).abs().sum().item())
    assert sizes == pytest.approx([1.0, 1.0, 0.25])


def test_the_loss_of_a_batch_does_not_depend_on_how_it_is_cut():
    torch.manual_seed(0)
    logp, behaviour, base = -torch.rand(3, 4), -torch.rand(3, 4), -torch.rand(3, 4)
    objective = LoggedPolicyGradient(DEFAULT)

    def loss(rows):
        batch = scored(
            logp[rows], behaviour[rows], (0.5,) * len(rows), (1.0,) * len(rows), None, base[rows], (False,) * len(rows)
        )
        return objective.loss(batch, 3.0, 2.0).total

    assert torch.allclose(loss([0, 1, 2]), loss([0]) + loss([1, 2]))


def test_the_gradient_of_the_divergence_to_base_is_that_of_the_true_one():
    torch.manual_seed(1)
    logits, base = torch.randn(4, requires_grad=True), torch.randn(4).log_softmax(0)
    behaviour = (logits.detach() + 0.1 * torch.randn(4)).log_softmax(0)
    logp = logits.log_softmax(0)
    true = (logp.exp() * (logp - base)).sum()
    each = reverse_kl(logp[:, None], base[:, None], behaviour[:, None], torch.ones(4, 1, dtype=torch.bool))
    estimate = (behaviour.exp() * each).sum()
    assert torch.allclose(true, estimate, atol=1e-5)
    (wanted,) = torch.autograd.grad(true, logits, retain_graph=True)
    (got,) = torch.autograd.grad(estimate, logits)
    assert torch.allclose(wanted, got, atol=1e-5)


def encode(text):
    return tuple(map(ord, text))


def test_liked_answers_corrections_and_damped_dislikes_become_examples():
    samples = [sample(0, reward=1.0), sample(1, reward=0.0), sample(2, reward=None, demonstration="ab")]
    liked, disliked, correction = LoggedPolicyGradient(DEFAULT).examples(samples, encode)
    assert liked.advantage > 0 > disliked.advantage
    assert disliked.weight == pytest.approx(DEFAULT.negative_damping)
    assert correction.written
    assert correction.completion == (97, 98)


def test_answers_that_are_as_good_as_expected_are_not_computed():
    samples = [sample(i, reward=0.0) for i in range(200)]
    assert LoggedPolicyGradient(DEFAULT).examples(samples, encode) == []
