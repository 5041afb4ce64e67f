import pytest
from headrace_local.spec import ProcessSpec, SpecError, in_order


def spec(name, *after):
    return ProcessSpec(name=name, argv=("true",), after=after)


def test_each_process_comes_after_what_it_depends_on():
    ordered = [s.name for s in in_order([spec("topics", "broker"), spec("broker", "s3"), spec("s3"), spec("vllm")])]
    assert ordered == ["s3", "vllm", "broker", "topics"]


def test_a_circle_is_refused():
    with pytest.raises(SpecError, match="wait for each other"):
        in_order([spec("a", "b"), spec("b", "a")])


def test_a_dependency_that_is_not_there_is_named():
    with pytest.raises(SpecError, match="a waits for nothing"):
        in_order([spec("a", "nothing")])


def test_a_name_twice_is_refused():
    with pytest.raises(SpecError, match="twice"):
        in_order([spec("a"), spec("a")])
