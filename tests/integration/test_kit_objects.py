"""The object store in memory and the real S3 store: one behaviour."""

import hashlib

import pytest

from headrace_kit.errors import Rejected, Retryable
from headrace_kit.objects import S3Objects
from headrace_kit.settings import ObjectSettings
from headrace_kit.testing import MemoryObjects


@pytest.fixture(params=["memory", "s3"])
async def objects(request):
    if request.param == "memory":
        return MemoryObjects()
    store = S3Objects(request.getfixturevalue("s3_settings"))
    await store.ensure_bucket()
    await store.ensure_bucket()
    return store


async def test_what_is_put_comes_back_whole(objects, tmp_path):
    body = bytes(range(256)) * 5000
    await objects.put("adapters/a/one", body)
    await objects.put("adapters/b/two", b"")
    assert await objects.get("adapters/a/one") == body
    assert await objects.size("adapters/a/one") == len(body)
    assert await objects.size("adapters/none") is None
    assert list(await objects.list("adapters/")) == ["adapters/a/one", "adapters/b/two"]
    digest = hashlib.sha256()
    assert await objects.download("adapters/a/one", tmp_path / "f", digest=digest) == len(body)
    assert digest.hexdigest() == hashlib.sha256(body).hexdigest()
    assert (tmp_path / "f").read_bytes() == body
    assert await objects.ping() is None


async def test_what_is_not_there_or_too_large_is_rejected_in_words(objects, tmp_path):
    with pytest.raises(Rejected, match="has no"):
        await objects.get("nothing")
    await objects.put("big", b"x" * 1000)
    with pytest.raises(Rejected, match="more than 10"):
        await objects.download("big", tmp_path / "f", limit=10)


async def test_a_store_that_is_away_is_retryable():
    store = S3Objects(ObjectSettings(endpoint="127.0.0.1:1", access_key="a", secret_key="b", bucket="bucket"))
    with pytest.raises(Retryable):
        await store.get("x")
    assert await store.ping() is not None
