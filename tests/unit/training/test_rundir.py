import hashlib

import pytest

from headrace_training.core.faults import BrokenManifest
from headrace_training.recipes import DEFAULT
from headrace_training.core.dataset import AdapterRef, RunManifest, refs
from headrace_training.rundir import read_run, write_run
from tests.unit.training.samples import sample


def manifest(samples, **fields):
    given = dict(
        policy="support", base_model="tiny", recipe=DEFAULT, seed=1, samples=refs(samples), run_id="r1", fencing_token=1
    )
    return RunManifest(**{**given, **fields})


def test_a_run_reads_back_as_it_was_written(tmp_path):
    samples = [sample(0), sample(1, reward=None, demonstration="Zwölf Würste.")]
    written = manifest(samples)
    write_run(tmp_path, written, samples)
    assert read_run(tmp_path) == (written, samples)


def test_a_changed_sample_is_refused(tmp_path):
    samples = [sample(0), sample(1)]
    write_run(tmp_path, manifest(samples), [samples[0], sample(1, reward=0.0)])
    with pytest.raises(BrokenManifest, match="not the ones"):
        read_run(tmp_path)


def test_another_parent_is_refused(tmp_path):
    write_run(tmp_path, manifest([], parent=AdapterRef(version=3, digest="0" * 64)), [])
    with pytest.raises(BrokenManifest, match="version 3"):
        read_run(tmp_path)
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "adapter_model.safetensors").write_bytes(b"x")
    write_run(tmp_path, manifest([], parent=AdapterRef(version=3, digest=hashlib.sha256(b"x").hexdigest())), [])
    assert read_run(tmp_path)[0].parent.version == 3


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(BrokenManifest):
        read_run(tmp_path)


def test_the_digest_is_of_the_dataset_not_of_the_run():
    samples = [sample()]
    assert manifest(samples).digest == manifest(samples, run_id="r2", fencing_token=9).digest
    assert manifest(samples).digest != manifest(samples, seed=2).digest
    assert manifest(samples).digest != manifest([sample(reward=0.0)]).digest
