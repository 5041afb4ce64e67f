import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from headrace_kit.testing import MemoryObjects
from headrace_schemas.base import VersionRef
from headrace_serving.adapter_store import AdapterStore, read_header, verify
from headrace_serving.base_facts import read_base
from headrace_serving.core.adapter import CONFIG_KEY, BadAdapter
from headrace_serving.core.probes import finite, largest_change, long_prompt
from headrace_serving.testing import adapter_file

BASE = "fake-base"
A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
SHAPES = {f"model.layers.0.self_attn.{m}.weight": (8, 8) for m in ("q_proj", "v_proj")}


def check(tmp_path, data, shapes=SHAPES, max_rank=16):
    path = tmp_path / "adapter_model.safetensors"
    path.write_bytes(data)
    return verify(path, BASE, shapes, max_rank)


def changed(change=None, config=None, drop_config=False):
    """A good file, with its tensors and its config changed."""
    good = adapter_file("x")
    tensors = {name: tensor.copy() for name, tensor in load(good).items()}
    said = json.loads(read_header(good)["__metadata__"][CONFIG_KEY])
    if change:
        change(tensors)
    said |= config or {}
    return save(tensors, metadata={} if drop_config else {CONFIG_KEY: json.dumps(said)})


def put(name, value):
    def change(tensors):
        tensors[name] = value

    return change


def drop(name):
    def change(tensors):
        del tensors[name]

    return change


def zero(tensors):
    for name in tensors:
        if "lora_B" in name:
            tensors[name][:] = 0


BAD = {
    "no config": (changed(drop_config=True), "has no headrace.adapter_config"),
    "rank above the limit": (changed(config={"r": 17}), "rank is 17"),
    "rank that the weights do not have": (changed(config={"r": 8}), "does not fit the rank 8"),
    "rank zero": (changed(config={"r": 0}), "rank is 0"),
    "alpha infinite": (changed(config={"lora_alpha": 1e400}), "lora_alpha"),
    "alpha of a word": (changed(config={"lora_alpha": "x"}), "lora_alpha"),
    "another base": (changed(config={"base_model_name_or_path": "other"}), "trained on 'other'"),
    "not lora": (changed(config={"peft_type": "IA3"}), "peft_type"),
    "bias": (changed(config={"bias": "all"}), "bias"),
    "dora": (changed(config={"use_dora": True}), "use_dora"),
    "code in the config": (changed(config={"auto_mapping": {"parent_library": "os"}}), "auto_mapping"),
    "rank pattern": (changed(config={"rank_pattern": {"x": 512}}), "rank_pattern"),
    "the embeddings as a target": (changed(config={"target_modules": ["embed_tokens"]}), "embed_tokens"),
    "a target without weights": (changed(config={"target_modules": ["q_proj", "v_proj", "o_proj"]}), "o_proj"),
    "weights without a target": (changed(config={"target_modules": ["q_proj"]}), "v_proj"),
    "the head": (changed(put("base_model.model.lm_head.lora_A.weight", np.ones((4, 8), np.float32))), "lm_head"),
    "a whole weight": (changed(put("base_model.model.model.norm.weight", np.ones(8, np.float32))), "norm.weight"),
    "a path outside": (changed(put("../../etc/passwd", np.ones(8, np.float32))), "no LoRA weight"),
    "A alone": (changed(drop(B)), "lora_A alone"),
    "one dimension": (changed(put(A, np.ones(8, np.float32))), "two dimensions"),
    "a shape that the base does not have": (changed(put(B, np.ones((9, 4), np.float32))), "the base model has"),
    "NaN": (changed(put(B, np.full((8, 4), np.nan, np.float32))), "not finite"),
    "infinity": (changed(put(A, np.full((4, 8), np.inf, np.float32))), "not finite"),
    "too large": (changed(put(B, np.full((8, 4), 1e6, np.float32))), "too large"),
    "whole numbers": (changed(put(B, np.ones((8, 4), np.int8))), "type I8"),
    "doubles": (changed(put(B, np.ones((8, 4), np.float64))), "type F64"),
    "all B zero": (changed(zero), "every B is zero"),
    "empty": (b"", "not a safetensors"),
    "a pickle": (b"\x80\x04\x95" + b"x" * 100, "not a safetensors"),
    "a huge header": ((1 << 40).to_bytes(8, "little") + b"{}" * 50, "not a safetensors"),
    "a header that is no JSON": ((50).to_bytes(8, "little") + b"x" * 60, "not JSON"),
    "truncated": (adapter_file("x")[:-3], "whole safetensors"),
    "too long": (adapter_file("x") + b"more", "whole safetensors"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_adapter_is_refused_in_words(tmp_path, kind):
    data, words = BAD[kind]
    with pytest.raises(BadAdapter, match=words):
        check(tmp_path, data)


def test_a_good_adapter_gets_a_config_written_anew(tmp_path):
    config = check(tmp_path, adapter_file("x"))
    written = config.regenerated(BASE)
    assert (written["r"], written["lora_alpha"], written["target_modules"]) == (4, 8.0, ["q_proj", "v_proj"])
    assert written["base_model_name_or_path"] == BASE
    assert written["modules_to_save"] is None


def test_an_adapter_whose_modules_the_base_does_not_have_is_refused_where_the_base_is_known(tmp_path):
    with pytest.raises(BadAdapter, match="no model.layers.0"):
        check(tmp_path, adapter_file("x"), shapes={"model.layers.1.self_attn.q_proj.weight": (8, 8)})
    assert check(tmp_path, adapter_file("x"), shapes=None)


def bfloat16(data):
    """The same file in bfloat16, by hand: numpy has no such type."""
    header, tensors = read_header(data), load(data)
    blob, entries = b"", {"__metadata__": header["__metadata__"]}
    for name, tensor in tensors.items():
        raw = (tensor.view(np.uint32) >> 16).astype("<u2").tobytes()
        entries[name] = {
            "dtype": "BF16",
            "shape": list(tensor.shape),
            "data_offsets": [len(blob), len(blob) + len(raw)],
        }
        blob += raw
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + blob


def test_bfloat16_is_read_though_numpy_has_none(tmp_path):
    assert check(tmp_path, bfloat16(adapter_file("x"))).rank == 4
    with pytest.raises(BadAdapter, match="not finite"):
        check(tmp_path, bfloat16(changed(put(B, np.full((8, 4), np.nan, np.float32)))))
    with pytest.raises(BadAdapter, match="every B is zero"):
        check(tmp_path, bfloat16(changed(zero)))


def test_a_base_models_folder_gives_hashes_and_shapes(tmp_path):
    folder = tmp_path / "models" / BASE
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"dtype": "float32"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ x }}"}')
    (folder / "model.safetensors").write_bytes(save({"model.norm.weight": np.ones((3, 2), np.float32)}))
    facts = read_base(tmp_path / "models", f"org/{BASE}")
    assert (facts.dtype, facts.shapes) == ("float32", {"model.norm.weight": (3, 2)})
    assert len(facts.chat_template_hash) == len(facts.tokenizer_hash) == 64
    assert facts.chat_template_hash != facts.tokenizer_hash
    assert read_base(None, BASE).shapes is None
    assert read_base(tmp_path, "unknown").tokenizer_hash == ""


def test_probes_see_what_changed_and_what_is_not_a_number():
    assert largest_change([[-1.0, -2.0]], [[-1.5, -2.0]]) == 0.5
    assert finite([[-1.0], [-2.0]])
    assert not finite([[-1.0], [float("nan")]])
    assert long_prompt(1024).tokens > 800
    assert long_prompt(512).tokens < 512


@pytest.mark.parametrize("metadata", ['["a"]', '"text"', '{"headrace.adapter_config": 1}', "[" * 100_000])
def test_metadata_of_any_shape_are_refused_and_end_no_agent(tmp_path, metadata):
    header = f'{{"__metadata__": {metadata}}}'.encode()
    with pytest.raises(BadAdapter):
        check(tmp_path, len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize("digest", ["", "..", "../other", "a" * 63])
async def test_a_digest_that_is_none_never_becomes_a_path(tmp_path, digest):
    (tmp_path / "other").mkdir()
    store = AdapterStore(tmp_path / "cache", MemoryObjects(), 16, 1024)
    ref = VersionRef(version=1, digest=digest, object_key="k", engine_model="m")
    with pytest.raises(BadAdapter, match="digest"):
        await store.fetch(ref, BASE, None)
