"""A random llama of a few thousand weights, saved as a model folder, for tests that need a real forward pass."""

from pathlib import Path

NAME = "tiny-llama"


def make(models: Path) -> Path:
    """`models/tiny-llama`, with a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models as kinds, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|pad|>": 0, "<|end|>": 1, **{c: i + 2 for i, c in enumerate(alphabet)}}
    inner = Tokenizer(kinds.BPE(vocabulary, [], fuse_unk=False))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<|pad|>", eos_token="<|end|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=1,
    )
    folder = models / NAME
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
