import csv
import json

import pytest

from headrace_local.demo.world import PromptsError, Style, Question, question_of, shop_world, words, world_of
from headrace_schemas.policy import Rule
from headrace_scoring.rules import judge_rule

DRILL = Question("Is the drill still in stock?", ("drill",), ())


def three_sets(world):
    return [{q.text for q in part} for part in (world.users, world.held_out, world.suite)]


def test_the_shop_has_88_questions_for_users_40_held_out_and_a_suite_of_80_that_share_none():
    world = shop_world()
    users, held_out, suite = three_sets(world)
    assert (len(users), len(held_out), len(suite)) == (88, 40, 80)
    assert not (users & held_out or users & suite or held_out & suite)
    assert shop_world() == world


@pytest.mark.parametrize(
    ("answer", "liked"),
    [
        ("Yes, the drill is in stock.", True),
        ("  Yes, the Drill is in stock.\n", True),
        ("Yes, drills are in stock.", True),
        ("The drill's in stock.", True),
        ("Yes, it is in stock.", False),
        ("Drill yes.", False),
        ("Yes, the drill\nis in stock.", False),
        ("Yes, the drill is in stock " + "and " * 8 + "so on.", False),
        ("", False),
    ],
)
def test_users_like_a_short_line_that_names_the_item(answer, liked):
    assert Style(14).likes(DRILL, answer) is liked


def test_every_answer_that_a_user_would_write_is_one_that_users_like():
    world = shop_world()
    for question in (*world.users, *world.held_out, *world.suite):
        assert len(set(question.answers)) > 2
        for answer in question.answers:
            assert world.style.likes(question, answer), answer


def test_a_case_of_the_suite_is_a_question_with_a_rule_that_the_policy_language_knows():
    for case in shop_world().suite_cases():
        rule = Rule.model_validate(case["rule"])
        assert rule.max_words == 14
    json.dumps(shop_world().suite_cases())


def test_the_suite_agrees_with_the_users_about_which_answers_are_good():
    world = shop_world()
    for question, case in zip(world.suite, world.suite_cases(), strict=True):
        name = question.names[0]
        for answer in (
            *question.answers,
            f"It is here: {name}s.",
            "No.",
            f"The {name}\nis here.",
            f"The {name} " * 9,
            "It is",
        ):
            met = judge_rule(Rule.model_validate(case["rule"]), answer).met
            assert met == (world.style.likes(question, answer) or (met and len(words(answer)) < 3)), answer


def write_csv(path, texts, column="text"):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([column, "category"])
        rows.writerows([t, "x"] for t in texts)
    return path


def questions(count):
    return [f"Why was payment number{n} of my account declined at the shop?" for n in range(count)]


def test_questions_from_csv_and_jsonl_make_the_same_world(tmp_path):
    texts = questions(300)
    one = world_of(write_csv(tmp_path / "own.csv", texts))
    lines = tmp_path / "own.jsonl"
    lines.write_text("\n".join(json.dumps({"text": t}) for t in texts))
    assert world_of(lines) == one
    users, held_out, suite = three_sets(one)
    assert (len(users), len(held_out), len(suite)) == (88, 40, 80)
    assert not (users & held_out or users & suite or held_out & suite)
    for question in one.users:
        assert all(one.style.likes(question, answer) for answer in question.answers)
    assert one.style.max_words == 16


def test_fewer_questions_are_shared_out_in_proportion(tmp_path):
    world = world_of(write_csv(tmp_path / "own.csv", questions(84)))
    assert [len(part) for part in three_sets(world)] == [36, 16, 32]


def test_long_questions_and_those_that_name_nothing_are_left_out():
    assert question_of("x" * 160) is None
    assert question_of("How do I do this?") is None
    assert question_of("I need a new PIN").names == ("pin",)
    assert question_of("Where is my  new\ncard?").text == "Where is my new card?"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "question\nhello", "no column `text`"),
        ("a.csv", "text\nWhere is my card?", "has 1 questions that can be used, and 72 are needed"),
        ("a.jsonl", '{"text": "x"}\n{', "line 2, is not JSON"),
        ("a.jsonl", '{"question": "x"}', "line 1, has no `text`"),
        ("a.csv", "", "no column `text`"),
    ],
)
def test_a_bad_file_is_one_sentence_with_the_mend(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(PromptsError, match=says):
        world_of(path)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(PromptsError, match="There is no file"):
        world_of(tmp_path / "none.csv")


def test_words_are_counted_as_people_do():
    assert words("Yes, we'll send 2 drills - today.") == ["Yes", "we'll", "send", "2", "drills", "today"]
