"""The parts of the local stack under one supervisor: real broker, PostgreSQL and S3, killed and started again."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import time

import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from headrace_local.options import StackOptions
from headrace_local.stack import StackError, down, status, up
from minio import Minio

PARTS_ONLY = StackOptions(broker="embedded", engine="none", services=())
PARTS = ("postgres", "s3", "broker")


@pytest.fixture
def root(tmp_path):
    yield tmp_path
    down(tmp_path)


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory):
    """A running stack for the tests that only look at it."""
    folder = tmp_path_factory.mktemp("stack")
    up(folder, PARTS_ONLY)
    yield folder
    down(folder)


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def store(state):
    s3 = state.s3
    return Minio(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, secure=False)


async def write(state):
    database = await asyncpg.connect(state.database_url)
    await database.execute("create table kept (value text)")
    await database.execute("insert into kept values ('kept')")
    await database.close()
    store(state).put_object(state.s3.bucket, "kept", io.BytesIO(b"kept"), 4)
    admin = AIOKafkaAdminClient(bootstrap_servers=state.kafka_bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("kept", 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=state.kafka_bootstrap, acks="all")
    await producer.start()
    await producer.send_and_wait("kept", b"kept")
    await producer.stop()


async def read(state):
    """What the three parts still know."""
    database = await asyncpg.connect(state.database_url)
    row = await database.fetchval("select value from kept")
    await database.close()
    response = store(state).get_object(state.s3.bucket, "kept")
    body = response.read()
    response.release_conn()
    consumer = AIOKafkaConsumer("kept", bootstrap_servers=state.kafka_bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    record = await asyncio.wait_for(consumer.getone(), 15)
    await consumer.stop()
    return row, body, record.value


KEPT = ("kept", b"kept", b"kept")


async def test_data_survive_the_kill_of_each_part_and_a_restart_of_the_stack(root):
    state = await asyncio.to_thread(up, root, PARTS_ONLY)
    await write(state)

    for name in PARTS:
        before = status(root).processes[name]
        os.kill(before.pid, signal.SIGKILL)

        def is_back(name=name, before=before):
            now = status(root).processes[name]
            return now.status == "ready" and now.restarts > before.restarts

        await asyncio.to_thread(until, is_back)
    assert await read(state) == KEPT

    pids = [state.supervisor_pid, *status(root).pids.values()]
    assert sorted(await asyncio.to_thread(down, root)) == sorted(PARTS)
    assert not [pid for pid in pids if alive(pid)]
    again = await asyncio.to_thread(up, root, PARTS_ONLY)
    assert again.ports == state.ports
    assert await read(again) == KEPT


def test_a_second_up_finds_the_first(shared_root):
    first = status(shared_root)
    second = up(shared_root, PARTS_ONLY)
    assert second.found
    assert second.pids == first.pids
    assert second.database_url == first.database_url


def test_nothing_listens_beyond_loopback(shared_root):
    state = status(shared_root)
    family = [psutil.Process(state.supervisor_pid), *psutil.Process(state.supervisor_pid).children(recursive=True)]
    listening = [
        connection.laddr
        for process in family
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_a_killed_supervisor_takes_its_parts_with_it_and_the_next_up_starts_anew(root):
    state = up(root, PARTS_ONLY)
    os.kill(state.supervisor_pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in state.pids.values()))
    assert status(root).phase == "gone"
    again = up(root, PARTS_ONLY)
    assert (again.phase, again.found) == ("ready", False)


def test_what_could_not_follow_a_killed_supervisor_is_ended_by_down(root):
    state = up(root, PARTS_ONLY)
    # What a service started in a session of its own gets no signal from the supervisor's death.
    stray = subprocess.Popen(["sleep", "60"], env={**os.environ, "HEADRACE_STACK": str(root)}, start_new_session=True)
    os.kill(state.supervisor_pid, signal.SIGKILL)
    down(root)
    stray.wait(5)
    assert status(root).phase == "stopped"


def test_ctrl_c_in_the_foreground_leaves_nothing_behind(root):
    script = """
import sys
from pathlib import Path
from headrace_local.options import StackOptions
from headrace_local.stack import run
run(Path(sys.argv[1]), StackOptions(engine="none", services=()), on_ready=lambda state: print("ready", flush=True))
"""
    foreground = subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE)
    assert foreground.stdout.readline() == b"ready\n"
    pids = status(root).pids
    assert set(pids) == set(PARTS)
    foreground.send_signal(signal.SIGINT)
    assert foreground.wait(20) == 0
    assert not [name for name, pid in pids.items() if alive(pid)]
    assert status(root).phase == "stopped"


def test_a_part_that_is_not_installed_is_one_sentence(root, monkeypatch):
    monkeypatch.setenv("KAFKA_HOME", str(root))
    with pytest.raises(StackError, match="no Apache Kafka in"):
        up(root, StackOptions(broker="kafka", engine="none", services=()))


def test_a_model_that_is_not_one_is_one_sentence(root):
    with pytest.raises(StackError, match="holds no model"):
        up(root, StackOptions(engine="none", services=(), model=str(root)))
    assert status(root).phase == "failed"
