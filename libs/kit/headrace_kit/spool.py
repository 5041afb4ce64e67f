"""A spool on disk between a request path and the bus: append now, publish when the broker is there.

Append-only segments of framed records (length, CRC, payload). Appending is one `write` into the page cache, which makes
a crash of the process harmless; with `fsync` a crash of the machine too, for whoever awaits `durable`. A forwarder
publishes in order and moves a cursor after the broker's ack; segments behind the cursor are deleted. What was
published but not yet behind the cursor at a crash is published again: event ids make that harmless.
"""

import asyncio
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from headrace_kit.bus import Bus
from headrace_kit.errors import HeadraceError, Retryable
from headrace_kit.records import Outgoing

log = structlog.get_logger()

_FRAME = struct.Struct("<II")  # payload length, CRC-32 of the payload
_CURSOR = struct.Struct("<QQI")  # segment, offset, CRC-32 of both
_HEAD = struct.Struct("<I")  # length of a payload's head
MAX_RECORD = 7 * 1024 * 1024
"""Bytes of one payload; below the broker's limit, so that no record can block the spool for ever."""
_BATCH_RECORDS = 128
_BATCH_BYTES = 2 * 1024 * 1024


class SpoolFull(HeadraceError):
    """The record was not taken: the quota is used up, the disk refused, or the record is too large."""


def pack(record: Outgoing) -> bytes:
    """A record as a payload: a small JSON head (latin-1 keeps bytes as they are), then the value."""
    head = orjson.dumps(
        {
            "t": record.topic,
            "k": None if record.key is None else record.key.decode("latin-1"),
            "h": [[name, value.decode("latin-1")] for name, value in record.headers],
            "v": record.value is not None,
        }
    )
    return _HEAD.pack(len(head)) + head + (record.value or b"")


def unpack(payload: bytes) -> Outgoing:
    """The inverse of `pack`."""
    (length,) = _HEAD.unpack_from(payload)
    head = orjson.loads(payload[_HEAD.size : _HEAD.size + length])
    return Outgoing(
        topic=head["t"],
        key=None if head["k"] is None else head["k"].encode("latin-1"),
        value=payload[_HEAD.size + length :] if head["v"] else None,
        headers=tuple((name, value.encode("latin-1")) for name, value in head["h"]),
    )


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole, undamaged frames from the start of `data`, each as (offset behind it, payload)."""
    offset = 0
    while offset + _FRAME.size <= len(data):
        length, crc = _FRAME.unpack_from(data, offset)
        end = offset + _FRAME.size + length
        if not 0 < length <= MAX_RECORD or end > len(data):
            return
        payload = data[offset + _FRAME.size : end]
        if zlib.crc32(payload) != crc:
            return
        offset = end
        yield offset, payload


@dataclass
class SpoolFigures:
    """What happened since the start, for metrics."""

    appended: int = 0
    published: int = 0
    dropped: int = 0
    damaged_bytes: int = 0


class Spool:
    """One folder, one process. `append` never waits; `run` forwards until cancelled."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 8 * 1024 * 1024,
        quota_bytes: int = 1024 * 1024 * 1024,
        fsync: bool = False,
        linger_s: float = 0.005,
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._quota = quota_bytes
        self._fsync = fsync
        self._linger_s = linger_s
        self.figures = SpoolFigures()
        self._arrived = asyncio.Event()
        self._synced_to = self._written = 0  # bytes appended in this process
        self._syncing: asyncio.Task[None] | None = None
        self._cursor = (0, 0)  # segment and offset of the first byte that is not published
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes: dict[int, int] = {}  # segment → bytes of whole frames
        for path in sorted(folder.glob("*.seg")):
            self._recover(path)
        self._active = max(self._sizes, default=0) + 1
        self._sizes[self._active] = 0
        self._file = self._create(self._active)
        self._move(self._read_cursor())  # on disk at once: a later segment may get the number of a deleted one
        if self.pending_bytes:
            self._arrived.set()

    # ---- the writing side -------------------------------------------------------------------------------------------
    def append(self, record: Outgoing) -> None:
        """Take one record. Raises SpoolFull, and then nothing of it is on disk."""
        payload = pack(record)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        if len(payload) > MAX_RECORD:
            self._refuse(f"a record of {len(payload)} bytes is larger than {MAX_RECORD}")
        if self.pending_bytes + len(frame) > self._quota:
            self._refuse(f"the spool holds its quota of {self._quota} bytes")
        try:
            if self._sizes[self._active] >= self._segment_bytes:
                self._rotate()
        except OSError as error:
            self._refuse(f"the disk refused a new segment: {error}")
        before = self._sizes[self._active]
        try:
            written = os.write(self._file, frame)
            if written != len(frame):
                raise OSError(f"wrote {written} of {len(frame)} bytes")  # noqa: TRY301 (one way out for both)
        except OSError as error:
            os.ftruncate(self._file, before)
            os.lseek(self._file, before, os.SEEK_SET)
            self._refuse(f"the disk refused: {error}")
        self._sizes[self._active] = before + len(frame)
        self._written += len(frame)
        self.figures.appended += 1
        self._arrived.set()

    def _refuse(self, why: str) -> None:
        self.figures.dropped += 1
        raise SpoolFull(why)

    async def durable(self) -> None:
        """With `fsync`: returns when all that was appended is on the disk itself. One fsync serves all who wait."""
        target = self._written
        while self._fsync and self._synced_to < target:
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.create_task(self._sync())
            await asyncio.shield(self._syncing)

    async def _sync(self) -> None:
        upto, handle = self._written, os.dup(self._file)
        try:
            await asyncio.to_thread(os.fsync, handle)
        finally:
            os.close(handle)
        self._synced_to = max(self._synced_to, upto)

    @property
    def pending_bytes(self) -> int:
        """Bytes on disk that are not yet published."""
        segment, offset = self._cursor
        return sum(size - (offset if number == segment else 0) for number, size in self._sizes.items())

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # ---- segments ---------------------------------------------------------------------------------------------------
    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020d}.seg"

    def _create(self, number: int) -> int:
        file = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if self._fsync:  # the file's name must survive the machine too
            folder = os.open(self._folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        return file

    def _rotate(self) -> None:
        """Raises OSError, and then the segment in use stays the one in use."""
        if self._fsync:
            os.fsync(self._file)
        following = self._create(self._active + 1)
        os.close(self._file)
        self._file = following
        self._active += 1
        self._sizes[self._active] = 0

    def _recover(self, path: Path) -> None:
        """Cut a torn tail off a segment of an earlier process; an empty one is deleted."""
        data = path.read_bytes()
        whole = 0
        for end, _ in frames(data):
            whole = end
        if whole < len(data):
            self.figures.damaged_bytes += len(data) - whole
            log.warning(
                "the tail of a spool segment was torn and is cut off", segment=path.name, bytes=len(data) - whole
            )
            os.truncate(path, whole)
        if whole:
            self._sizes[int(path.stem)] = whole
        else:
            path.unlink()

    def _read_cursor(self) -> tuple[int, int]:
        first = (min(self._sizes), 0)
        try:
            segment, offset, crc = _CURSOR.unpack((self._folder / "cursor").read_bytes())
        except (OSError, struct.error):
            return first
        if crc != zlib.crc32(_CURSOR.pack(segment, offset, 0)[:16]) or offset > self._sizes.get(segment, -1):
            return first
        for number in [n for n in self._sizes if n < segment]:
            self._delete(number)
        return segment, offset

    def _delete(self, number: int) -> None:
        del self._sizes[number]
        self._path(number).unlink(missing_ok=True)

    # ---- the publishing side ----------------------------------------------------------------------------------------
    async def run(self, bus: Bus) -> None:
        """Publish until cancelled. A broker that is away is waited for, and so is a disk that is full."""
        delay = 0.1
        while True:
            if not self.pending_bytes:
                self._arrived.clear()
                await self._arrived.wait()
                await asyncio.sleep(self._linger_s)
            try:
                await self.forward(bus)
                delay = 0.1
            except (Retryable, OSError) as error:
                log.warning("records stay in the spool", pending_bytes=self.pending_bytes, error=str(error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)

    async def forward(self, bus: Bus) -> int:
        """Publish one batch and move the cursor behind it; answers how many records. Raises Retryable."""
        batch, cursor = self._next_batch()
        if batch:
            await bus.publish(batch)
            self.figures.published += len(batch)
        self._move(cursor)
        return len(batch)

    def _next_batch(self) -> tuple[list[Outgoing], tuple[int, int]]:
        segment, offset = self._cursor
        while offset >= self._sizes[segment] and segment < self._active:
            segment, offset = min(n for n in self._sizes if n > segment), 0
        with self._path(segment).open("rb") as file:
            file.seek(offset)
            limit = self._sizes[segment] - offset
            data = file.read(min(limit, _BATCH_BYTES))
            if len(data) >= _FRAME.size and (need := _FRAME.size + _FRAME.unpack_from(data)[0]) > len(data):
                data += file.read(min(need, limit) - len(data))
        batch: list[Outgoing] = []
        behind = 0
        for end, payload in frames(data):
            batch.append(unpack(payload))
            behind = end
            if len(batch) == _BATCH_RECORDS:
                break
        if data and not batch:
            # Damaged after it was written: nothing behind it in this segment can be framed again.
            lost = self._sizes[segment] - offset
            self.figures.damaged_bytes += lost
            log.error("a spool segment is damaged, its rest is skipped", segment=self._path(segment).name, bytes=lost)
            behind = lost
        return batch, (segment, offset + behind)

    def _move(self, cursor: tuple[int, int]) -> None:
        self._cursor = cursor
        segment, offset = cursor
        if segment == self._active and offset == self._sizes[segment] and offset >= self._segment_bytes:
            self._rotate()
        head = _CURSOR.pack(segment, offset, 0)[:16]
        temporary = self._folder / "cursor.tmp"
        try:
            temporary.write_bytes(head + struct.pack("<I", zlib.crc32(head)))
            temporary.replace(self._folder / "cursor")
        finally:  # on a full disk too: this is what makes room
            for number in [n for n in self._sizes if n < segment]:
                self._delete(number)
