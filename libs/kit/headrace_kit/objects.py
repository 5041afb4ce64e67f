"""The object store behind a protocol of five methods; on S3 through the minio SDK, which blocks, so in a thread."""

import asyncio
import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import urllib3
from minio import Minio
from minio.error import MinioException, S3Error

from headrace_kit.errors import Rejected, Retryable
from headrace_kit.settings import ObjectSettings

T = TypeVar("T")


class Objects(Protocol):
    """Immutable objects by key. Raises Rejected("not_found") for a key that is not there, Retryable for an outage."""

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> None: ...

    async def get(self, key: str) -> bytes: ...

    async def download(
        self, key: str, path: Path, *, limit: int | None = None, digest: "hashlib._Hash | None" = None
    ) -> int:
        """Stream an object into a file, through `digest` on the way; answers its size in bytes.

        Raises Rejected("too_large") as soon as more than `limit` bytes have come.
        """

    async def size(self, key: str) -> int | None:
        """Bytes, or None where there is no such object."""

    async def list(self, prefix: str) -> Sequence[str]: ...


class S3Objects:
    """See Objects."""

    def __init__(self, settings: ObjectSettings) -> None:
        self._bucket = settings.bucket
        self._client = Minio(
            settings.endpoint,
            access_key=settings.access_key,
            secret_key=settings.secret_key.get_secret_value(),
            secure=settings.secure,
            region=settings.region,
            http_client=urllib3.PoolManager(
                timeout=urllib3.Timeout(connect=3, read=30),
                retries=urllib3.Retry(total=2, backoff_factor=0.2),
                maxsize=8,
            ),
        )

    async def ensure_bucket(self) -> None:
        def ensure() -> None:
            if not self._client.bucket_exists(self._bucket):
                try:
                    self._client.make_bucket(self._bucket)
                except S3Error as error:
                    if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                        raise

        await self._in_thread(ensure)

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> None:
        await self._in_thread(
            lambda: self._client.put_object(self._bucket, key, io.BytesIO(data), len(data), content_type=content_type)
        )

    async def get(self, key: str) -> bytes:
        def read() -> bytes:
            response = self._client.get_object(self._bucket, key)
            try:
                return bytes(response.read())
            finally:
                response.close()
                response.release_conn()

        return await self._in_thread(read, key)

    async def download(
        self, key: str, path: Path, *, limit: int | None = None, digest: "hashlib._Hash | None" = None
    ) -> int:
        def stream() -> int:
            response, size = self._client.get_object(self._bucket, key), 0
            try:
                with path.open("wb") as file:
                    for chunk in response.stream(1024 * 1024):
                        size += len(chunk)
                        if limit is not None and size > limit:
                            raise Rejected("too_large", f"{key} has more than {limit} bytes")
                        file.write(chunk)
                        if digest is not None:
                            digest.update(chunk)
            finally:
                response.close()
                response.release_conn()
            return size

        return int(await self._in_thread(stream, key))

    async def size(self, key: str) -> int | None:
        try:
            found = await self._in_thread(lambda: self._client.stat_object(self._bucket, key), key)
        except Rejected:
            return None
        return int(found.size)

    async def list(self, prefix: str) -> Sequence[str]:
        return await self._in_thread(
            lambda: [o.object_name for o in self._client.list_objects(self._bucket, prefix=prefix, recursive=True)]
        )

    async def ping(self) -> str | None:
        """None when the bucket answers, else why not."""
        try:
            if await self._in_thread(lambda: self._client.bucket_exists(self._bucket)):
                return None
        except Retryable as error:
            return str(error)
        return f"the bucket {self._bucket} does not exist"

    async def _in_thread(self, call: Callable[[], T], key: str = "") -> T:
        try:
            return await asyncio.to_thread(call)
        except S3Error as error:
            if error.code in ("NoSuchKey", "NoSuchObject"):
                raise Rejected("not_found", f"the object store has no {key}") from error
            raise Retryable(f"the object store refused: {error.code}") from error
        except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
            raise Retryable(f"the object store cannot be reached: {error!r}") from error
