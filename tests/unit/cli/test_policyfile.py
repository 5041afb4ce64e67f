import pytest
from headrace_cli.policyfile import PolicyFileError, parse_policy, read_policy

GOOD = """\
policy: support
base_model: SmolLM2
reward:
  parts:
    - {name: user, kind: feedback, weight: 1.0}
    - name: format
      kind: rule
      rule:
        max_words: 14
gate:
  suite: support-private
"""


def problems(text: str) -> list[tuple[int, str]]:
    with pytest.raises(PolicyFileError) as caught:
        parse_policy(text, "p.yaml")
    return [(p.line, p.field) for p in caught.value.problems]


def test_a_good_file_is_read_and_json_is_read_too(tmp_path):
    spec = parse_policy(GOOD)
    assert spec.policy == "support"
    file = tmp_path / "p.json"
    file.write_text(spec.model_dump_json())
    assert read_policy(file).digest() == spec.digest()


def test_each_problem_names_its_line_and_its_field():
    assert problems(GOOD.replace("max_words", "max_wrds")) == [(9, "reward.parts.1.rule.max_wrds")]
    assert problems(GOOD.replace("weight: 1.0", "weight: -1")) == [(5, "reward.parts.0.weight")]
    assert problems(GOOD.replace("  suite: support-private", "  guards: []")) == [(10, "gate.suite")]
    assert problems(GOOD.replace("base_model: SmolLM2\n", "")) == [(1, "base_model")]
    assert problems(GOOD + "  target: {alpha: .nan}\n") == [(12, "gate.target.alpha")]


def test_the_message_is_what_an_editor_can_jump_to():
    with pytest.raises(PolicyFileError, match=r"^p.yaml:2: base_model: "):
        parse_policy(GOOD.replace("SmolLM2", "a/../b"), "p.yaml")


def test_a_key_that_occurs_twice_is_refused():
    assert problems(GOOD + "policy: other\n") == [(12, "policy")]


@pytest.mark.parametrize("text", ["", "- 1", "just words", "a: [", "\tx: 1", "? [a]\n: b"])
def test_what_is_no_policy_file_at_all_is_refused_with_a_line(text):
    assert problems(text)


def test_bytes_that_are_not_utf8_name_their_line(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_bytes(b"policy: a\nbase_model: \xff\n")
    with pytest.raises(PolicyFileError, match=":2: the file is not UTF-8"):
        read_policy(file)


def test_a_pattern_that_cannot_be_used_names_its_line():
    assert problems(GOOD.replace("max_words: 14", 'matches: "(a"')) == [(9, "reward.parts.1.rule.matches")]
