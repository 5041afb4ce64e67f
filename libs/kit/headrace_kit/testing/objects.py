"""The object store in memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from headrace_kit.errors import Rejected


class MemoryObjects:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> None:
        self.objects[key] = data

    async def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise Rejected("not_found", f"the object store has no {key}")
        return self.objects[key]

    async def download(
        self, key: str, path: Path, *, limit: int | None = None, digest: "hashlib._Hash | None" = None
    ) -> int:
        data = await self.get(key)
        if limit is not None and len(data) > limit:
            raise Rejected("too_large", f"{key} has more than {limit} bytes")
        if digest is not None:
            digest.update(data)
        path.write_bytes(data)
        return len(data)

    async def size(self, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    async def list(self, prefix: str) -> Sequence[str]:
        return sorted(k for k in self.objects if k.startswith(prefix))

    async def ping(self) -> str | None:
        return None
