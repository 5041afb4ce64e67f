import pytest
from headrace_local.options import OptionError, StackOptions


def test_options_survive_json():
    options = StackOptions(broker="127.0.0.1:9092", engine="none", services=("registry",))
    assert StackOptions.from_json(options.to_json()) == options


@pytest.mark.parametrize("broker", ["embedded", "kafka", "localhost:9092", "a:1,b:2"])
def test_known_brokers_are_taken(broker):
    assert StackOptions(broker=broker).broker == broker


@pytest.mark.parametrize("broker", ["tansu", "localhost", "a:b", ":9092", ""])
def test_an_unknown_broker_is_refused_with_what_there_is(broker):
    with pytest.raises(OptionError, match="embedded, kafka and host:port"):
        StackOptions(broker=broker)


def test_an_unknown_service_is_named():
    with pytest.raises(OptionError, match="'billing'"):
        StackOptions(services=("billing",))


def test_an_unknown_engine_is_refused():
    with pytest.raises(OptionError, match="sglang"):
        StackOptions(engine="sglang")
