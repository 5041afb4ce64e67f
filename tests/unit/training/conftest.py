import pytest

from tests.unit.training import tiny


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder of base models with a tiny one in it. One thread: with more, small tensors wait for busy cores."""
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    tiny.make(folder)
    return folder
