import socket

from headrace_local import ports


def test_remembered_ports_are_taken_again():
    first = ports.choose(["a", "b"])
    assert ports.choose(["b", "a"], first) == first


def test_a_remembered_port_that_somebody_took_is_replaced():
    first = ports.choose(["a"])
    with socket.create_server(("127.0.0.1", first["a"])):
        assert ports.choose(["a"], first) != first


def test_no_port_is_handed_out_twice():
    same = ports.choose(["a"])["a"]
    chosen = ports.choose(["a", "b"], {"a": same, "b": same})
    assert chosen["a"] == same
    assert chosen["b"] != same
