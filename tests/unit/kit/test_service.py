"""What a service's own pieces do when something breaks in the middle."""

import contextlib
from types import SimpleNamespace

import pytest

from headrace_kit.errors import Retryable
from headrace_kit.kafka import record_of
from headrace_kit.service import Service
from headrace_kit.testing import MemoryBroker, MemoryBus


class Transactions:
    """Stands where the database does, and remembers how each transaction ended."""

    def __init__(self):
        self.ends = []

    @contextlib.asynccontextmanager
    async def begin(self):
        try:
            yield None
        except BaseException as error:
            self.ends.append(type(error))
            raise Retryable("the database did not take it") from error
        self.ends.append(None)

    async def ping(self):
        return None

    async def close(self):
        pass


async def test_a_unit_of_work_that_cannot_be_finished_ends_its_transaction():
    database = Transactions()
    service = Service("x", bus=MemoryBus(MemoryBroker()), database=database)

    async def finish(items, work):
        raise OSError("broken")

    with pytest.raises(Retryable):
        async with service.unit_of_work() as work:
            work.gather(finish, 1)
    assert database.ends == [OSError]


def test_a_header_without_a_value_is_an_empty_one():
    raw = SimpleNamespace(
        topic="t", partition=0, offset=1, key=None, value=b"{}", headers=(("a", None), ("b", b"1")), timestamp=0
    )
    assert record_of(raw).headers == (("a", b""), ("b", b"1"))
