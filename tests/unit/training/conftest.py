import pytest

from tests.unit.training import tiny


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder of base models with a tiny one in it."""
    folder = tmp_path_factory.mktemp("models")
    tiny.make(folder)
    return folder
