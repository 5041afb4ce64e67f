import os

from headrace_local import credentials, state
from headrace_local.options import StackOptions, layout
from headrace_local.state import ProcessState, StackState


def a_state(root):
    return StackState(
        root=root,
        phase="ready",
        options=StackOptions(engine="none"),
        ports={"postgres": 21000, "s3": 21001, "gateway": 21002},
        kafka_bootstrap="127.0.0.1:21003",
        processes={"gateway": ProcessState("gateway", "ready", pid=7, url="http://127.0.0.1:21002")},
    )


def test_a_written_state_is_read_back_whole(tmp_path):
    written = a_state(tmp_path)
    state.write(written)
    assert state.read(layout(tmp_path)) == written


def test_no_secret_is_in_the_state_file(tmp_path):
    where = layout(tmp_path)
    secrets = credentials.load_or_make(where)
    state.write(a_state(tmp_path))
    text = where.state.read_text()
    for secret in (secrets.admin_token, secrets.postgres_password, secrets.s3_secret_key):
        assert secret not in text


def test_addresses_for_clients_come_from_state_and_secrets(tmp_path):
    secrets = credentials.load_or_make(layout(tmp_path))
    found = a_state(tmp_path)
    assert found.gateway_url == "http://127.0.0.1:21002"
    assert secrets.postgres_password in found.database_url
    assert found.client_env()["HEADRACE_GATEWAY_URL"] == found.gateway_url
    assert found.client_env()["HEADRACE_ADMIN_TOKEN"] == secrets.admin_token


def test_one_supervisor_at_a_time_holds_the_lock(tmp_path):
    where = layout(tmp_path)
    assert not state.is_supervised(where)
    held = state.try_lock(where)
    assert held is not None
    assert state.try_lock(where) is None
    assert state.is_supervised(where)
    os.close(held)
    assert not state.is_supervised(where)
