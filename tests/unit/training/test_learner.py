import pytest
import torch

from headrace_training.core.adapter import adapter_config
from headrace_training.core.faults import BadParent, Diverged, RunFault
from headrace_training.learner import Learner
from headrace_training.lora import adapter_bytes, base_folder, load_base, with_adapter
from headrace_training.objectives.protocol import Example
from headrace_training.objectives.registry import objective
from headrace_training.recipes import DEFAULT, LoraShape
from headrace_training.scoring import completion_logprobs
from tests.unit.training import tiny
from tests.unit.training.samples import sample

RECIPE = DEFAULT.model_copy(update={"lora": LoraShape(rank=4, alpha=8), "learning_rate": 1e-2, "anchor_weight": 0.1})


def fresh(models, recipe=RECIPE, parent=None):
    base, tokenizer = load_base(base_folder(models, tiny.NAME))
    return Learner(with_adapter(base, recipe.lora, tiny.NAME, parent), tokenizer, objective(recipe), recipe)


def logprobs(learner, prompt, completion):
    example = Example(sample(prompt_token_ids=prompt), completion, (0.0,) * len(completion), 0.0, 1.0, 1)
    with torch.no_grad():
        return completion_logprobs(learner.model, [example], learner.pad)[0]


def as_sampled(learner, n, prompt, completion, **fields):
    logs = tuple(logprobs(learner, prompt, completion).tolist())
    return sample(n, prompt_token_ids=prompt, completion_token_ids=completion, logprobs=logs, **fields)


def data(learner):
    liked = [as_sampled(learner, i, (10, 11, 12 + i), (20, 21, 22), reward=1.0) for i in range(4)]
    disliked = [as_sampled(learner, 9 + i, (10, 11, 12 + i), (30, 31, 32, 33), reward=0.0) for i in range(4)]
    return [*liked, *disliked, sample(20, reward=None, demonstration="so", prompt_token_ids=(10, 11, 40))]


def test_logprobs_of_a_padded_batch_are_those_of_each_sequence_alone(models):
    learner = fresh(models)
    pairs = [((5, 6, 7, 8, 9), (10, 11)), ((5,), (12, 13, 14, 15)), ((5, 6), (16,))]
    examples = [Example(sample(prompt_token_ids=p), c, (0.0,) * len(c), 0.0, 1.0, 1) for p, c in pairs]
    with torch.no_grad():
        together = completion_logprobs(learner.model, examples, learner.pad)
    for row, (prompt, completion) in zip(together, pairs, strict=True):
        ids = torch.tensor([[*prompt, *completion]])
        with torch.no_grad():
            plain = learner.model(input_ids=ids).logits[0].log_softmax(-1)
        wanted = [plain[len(prompt) - 1 + k, token].item() for k, token in enumerate(completion)]
        assert row[len(row) - len(completion) :].tolist() == pytest.approx(wanted, abs=1e-5)


def test_a_run_makes_liked_answers_and_corrections_likelier_and_disliked_ones_less_likely(models):
    learner = fresh(models, RECIPE.model_copy(update={"negative_damping": 1.0, "negative_passes": 4}))
    samples = data(learner)
    demonstration = learner.encode("so")
    before = [logprobs(learner, s.prompt_token_ids, s.completion_token_ids).sum() for s in samples]
    written = logprobs(learner, samples[-1].prompt_token_ids, demonstration).sum()
    reports = list(learner.run(samples, seed=0))
    after = [logprobs(learner, s.prompt_token_ids, s.completion_token_ids).sum() for s in samples]
    assert after[0] > before[0]
    assert after[4] < before[4]
    assert logprobs(learner, samples[-1].prompt_token_ids, demonstration).sum() > written
    assert reports[0].importance_mean == pytest.approx(1.0, abs=1e-4)
    assert reports[0].kl_behaviour == pytest.approx(0.0, abs=1e-4)
    assert max(r.kl_base for r in reports) > 0
    assert demonstration[-1] == 1


def test_the_same_samples_and_seed_give_the_same_bytes(models):
    config = adapter_config(RECIPE.lora, tiny.NAME)
    results = []
    for seed in (0, 0, 1):
        learner = fresh(models)
        torch.manual_seed(seed)
        learner = fresh(models)
        list(learner.run(data(learner), seed))
        results.append(adapter_bytes(learner.model, config))
    assert results[0] == results[1] != results[2]


def test_micro_batches_change_memory_and_nothing_else(models):
    losses = []
    for size in (2, 8):
        torch.manual_seed(0)
        learner = fresh(models, RECIPE.model_copy(update={"micro_batch_size": size}))
        losses.append([r.loss for r in learner.run(data(learner), 0)])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_parent_is_continued(models, tmp_path):
    learner = fresh(models)
    list(learner.run(data(learner), 0))
    path = tmp_path / "parent.safetensors"
    path.write_bytes(adapter_bytes(learner.model, adapter_config(RECIPE.lora, tiny.NAME)))
    child = fresh(models, parent=path)
    assert torch.equal(logprobs(child, (5, 6), (7, 8)), logprobs(learner, (5, 6), (7, 8)))


def test_a_parent_of_another_shape_or_base_model_is_refused(models, tmp_path):
    learner = fresh(models)
    path = tmp_path / "parent.safetensors"
    path.write_bytes(adapter_bytes(learner.model, adapter_config(RECIPE.lora, "another")))
    with pytest.raises(BadParent, match="another"):
        fresh(models, parent=path)
    path.write_bytes(b"not safetensors")
    with pytest.raises(BadParent):
        fresh(models, parent=path)
    next(p for p in learner.parameters).data[0] = float("nan")
    path.write_bytes(adapter_bytes(learner.model, adapter_config(RECIPE.lora, tiny.NAME)))
    with pytest.raises(BadParent, match="finite"):
        fresh(models, parent=path)


def test_numbers_that_are_not_finite_end_the_run(models):
    learner = fresh(models)
    samples = data(learner)
    learner.parameters[0].data[0] = float("inf")
    with pytest.raises(Diverged, match="step 0"):
        list(learner.run(samples, 0))


def test_a_base_model_that_is_not_there_is_named(models):
    with pytest.raises(RunFault, match="nowhere"):
        base_folder(models, "nowhere")
    assert base_folder(models, f"somebody/{tiny.NAME}") == models / tiny.NAME
