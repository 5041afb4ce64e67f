"""Apache Kafka by our own start-up code."""

import os
import signal

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from headrace_local import parts
from headrace_local.options import StackOptions
from headrace_local.stack import down, status, up
from tests.conftest import kafka_home

pytestmark = pytest.mark.kafka


@pytest.fixture
def home():
    found = kafka_home()
    if found is None:
        pytest.skip("no Apache Kafka here: set KAFKA_HOME to a folder with libs/, and install Java 17")
    return found


async def send(bootstrap, count):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    for number in range(count):
        await producer.send_and_wait("kept", b"%d" % number)
    await producer.stop()


async def test_acknowledged_records_survive_the_kill_of_the_broker(tmp_path, home):
    with parts.kafka_cluster(tmp_path, home=home) as cluster:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic("kept", 1, 1)])
        await admin.close()
        await send(cluster.bootstrap, 20)
        cluster.parts.kill("broker")
        cluster.parts.start("broker")
        consumer = AIOKafkaConsumer("kept", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        values = [(await consumer.getone()).value for _ in range(20)]
        await consumer.stop()
    assert values == [b"%d" % number for number in range(20)]


def test_the_stack_runs_on_apache_kafka_on_loopback_only(tmp_path, home, monkeypatch):
    monkeypatch.setenv("KAFKA_HOME", str(home))
    try:
        state = up(tmp_path, StackOptions(broker="kafka", engine="none", services=()))
        listening = [c.laddr.ip for c in psutil.Process(state.pids["broker"]).net_connections() if c.status == "LISTEN"]
        assert len(listening) == 2
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
        os.kill(state.pids["broker"], signal.SIGTERM)
    finally:
        down(tmp_path)
    assert status(tmp_path).phase == "stopped"
