import pytest
from headrace_local import models


def a_model(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer_config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    return folder


def test_ones_own_model_is_used_where_it_lies(tmp_path):
    assert models.locate(str(a_model(tmp_path / "mine"))) == tmp_path / "mine"


def test_a_folder_without_a_model_is_refused_with_the_mend(tmp_path):
    with pytest.raises(models.ModelError, match="save_pretrained"):
        models.locate(str(tmp_path))


def test_a_prepared_model_is_left_as_it_is(tmp_path, capsys):
    folder = a_model(tmp_path / "model")
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    models.prepare(folder)
    assert before == {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert "is ready" in capsys.readouterr().out


def test_a_folder_half_written_is_not_a_model(tmp_path):
    folder = a_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    assert not models.is_complete(folder)
