import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace_kit.errors import Retryable
from headrace_kit.records import Outgoing
from headrace_kit.spool import MAX_RECORD, Spool, SpoolFull, frames, pack, unpack
from headrace_kit.testing import MemoryBroker, MemoryBus


class BusThatFails:
    """Refuses the first `times` publishings, then hands on."""

    def __init__(self, bus, times):
        self._bus, self._times = bus, times

    async def publish(self, records):
        if self._times > 0:
            self._times -= 1
            raise Retryable("no broker")
        await self._bus.publish(records)


def record(n, size=10):
    return Outgoing("t", f"k{n}".encode(), f"{n:0{size}d}".encode(), (("ce_id", str(n).encode()),))


def values(broker):
    return sorted(int(r.value) for r in broker.all("t"))


async def drain(spool, bus, limit=1000):
    for _ in range(limit):
        if not spool.pending_bytes:
            return
        await spool.forward(bus)
    raise AssertionError("the spool never got empty")


outgoing = st.builds(
    Outgoing,
    st.text(min_size=1, max_size=20).filter(lambda t: t.isprintable()),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(min_size=1, max_size=8), st.binary(max_size=20)), max_size=3).map(tuple),
)


@given(outgoing)
def test_a_record_comes_out_of_its_payload_as_it_went_in(item):
    assert unpack(pack(item)) == item


async def test_what_was_appended_is_published_in_order_and_leaves_the_disk(tmp_path):
    broker = MemoryBroker(partitions=1)
    spool = Spool(tmp_path, segment_bytes=500)
    for n in range(100):
        spool.append(record(n))
    assert len(list(tmp_path.glob("*.seg"))) > 5
    await drain(spool, MemoryBus(broker))
    assert [int(r.value) for r in broker.all("t")] == list(range(100))
    assert spool.pending_bytes == 0
    assert len(list(tmp_path.glob("*.seg"))) == 1


async def test_a_broker_that_is_away_loses_nothing(tmp_path):
    broker = MemoryBroker()
    spool = Spool(tmp_path, linger_s=0)
    for n in range(10):
        spool.append(record(n))
    task = asyncio.create_task(spool.run(BusThatFails(MemoryBus(broker), 2)))
    async with asyncio.timeout(5):
        while spool.pending_bytes:
            await asyncio.sleep(0.01)
    task.cancel()
    assert values(broker) == list(range(10))


async def test_a_second_process_publishes_what_the_first_one_left(tmp_path):
    broker = MemoryBroker()
    first = Spool(tmp_path)
    for n in range(300):
        first.append(record(n))
    await first.forward(MemoryBus(broker))  # a part of it
    second = Spool(tmp_path)  # the first was never closed
    await drain(second, MemoryBus(broker))
    assert values(broker) == list(range(300))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 10_000), junk=st.binary(max_size=30), count=st.integers(0, 30))
async def test_a_torn_tail_costs_the_torn_record_and_no_other(tmp_path, cut, junk, count):
    shutil.rmtree(tmp_path, ignore_errors=True)
    first = Spool(tmp_path)
    for n in range(count):
        first.append(record(n))
    first.close()
    path = next(iter(tmp_path.glob("*.seg")))
    data = path.read_bytes()
    kept = data[: min(cut, len(data))]
    whole = sum(1 for _ in frames(kept))
    path.write_bytes(kept + junk)
    broker = MemoryBroker()
    second = Spool(tmp_path)
    second.append(record(1000))
    await drain(second, MemoryBus(broker))
    assert values(broker) == [*range(whole), 1000]


async def test_damage_in_the_middle_of_a_segment_does_not_stop_what_follows(tmp_path):
    spool = Spool(tmp_path, segment_bytes=200)
    for n in range(20):
        spool.append(record(n))
    first = sorted(tmp_path.glob("*.seg"))[0]
    data = bytearray(first.read_bytes())
    data[20] ^= 0xFF
    first.write_bytes(data)
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    assert 19 in values(broker)
    assert spool.figures.damaged_bytes > 0


async def test_the_quota_refuses_and_frees_itself(tmp_path):
    spool = Spool(tmp_path, quota_bytes=1000)
    taken = 0
    with pytest.raises(SpoolFull):
        while True:
            spool.append(record(taken))
            taken += 1
    assert spool.figures.dropped == 1
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    spool.append(record(taken))
    await drain(spool, MemoryBus(broker))
    assert values(broker) == list(range(taken + 1))


async def test_a_record_too_large_for_the_broker_never_blocks_the_spool(tmp_path):
    spool = Spool(tmp_path)
    with pytest.raises(SpoolFull):
        spool.append(Outgoing("t", None, b"x" * (MAX_RECORD + 1)))
    spool.append(record(1))
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    assert values(broker) == [1]


async def test_records_larger_than_a_batch_are_published(tmp_path):
    spool = Spool(tmp_path)
    big = Outgoing("t", b"k", b"7" * (5 * 1024 * 1024))
    spool.append(record(1))
    spool.append(big)
    spool.append(record(2))
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    assert len(broker.all("t")) == 3


async def test_fsync_returns_when_everything_is_on_disk(tmp_path):
    spool = Spool(tmp_path, fsync=True, segment_bytes=300)
    for n in range(20):
        spool.append(record(n))
    await asyncio.gather(*(spool.durable() for _ in range(5)))
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    assert values(broker) == list(range(20))


async def test_a_process_killed_in_the_middle_leaves_every_record_it_had_said_it_took(tmp_path):
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from headrace_kit.records import Outgoing
        from headrace_kit.spool import Spool
        spool = Spool(Path(sys.argv[1]), segment_bytes=20_000)
        for n in range(10_000_000):
            spool.append(Outgoing("t", b"k", str(n).encode(), (("ce_id", b"1"),)))
            sys.stdout.write(f"{n}\\n")
            sys.stdout.flush()
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    said = [int(child.stdout.readline()) for _ in range(2000)][-1]
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().split()
    said = int(rest[-1]) if len(rest) > 1 else said
    child.wait()
    broker = MemoryBroker(partitions=1)
    await drain(Spool(tmp_path), MemoryBus(broker), limit=100_000)
    got = values(broker)
    assert got == list(range(len(got)))
    assert len(got) >= said


async def test_a_disk_that_takes_no_new_segment_costs_records_and_no_file_of_somebody_else(tmp_path):
    spool = Spool(tmp_path, segment_bytes=10)
    spool.append(record(0))
    blocker = tmp_path / f"{2:020d}.seg"
    blocker.mkdir()
    with pytest.raises(SpoolFull, match="new segment"):
        spool.append(record(1))
    blocker.rmdir()
    spool.append(record(2))
    broker = MemoryBroker()
    await drain(spool, MemoryBus(broker))
    assert values(broker) == [0, 2]


async def test_a_disk_that_takes_no_cursor_ends_nothing_and_still_gets_room(tmp_path):
    spool = Spool(tmp_path, segment_bytes=10)
    for n in range(3):
        spool.append(record(n))
    (tmp_path / "cursor.tmp").mkdir()
    broker = MemoryBroker()
    task = asyncio.create_task(spool.run(MemoryBus(broker)))
    try:
        async with asyncio.timeout(10):
            while len(values(broker)) < 3:
                await asyncio.sleep(0.02)
        assert not task.done()
        assert len(list(tmp_path.glob("*.seg"))) < 3
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
