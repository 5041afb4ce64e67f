from headrace_local.demo.users import Habits, Mood, mood, order, react
from headrace_local.demo.world import Question, Style

QUESTION = Question("Is the drill in stock?", ("drill",), ("Yes, the drill is here.", "The drill is in stock."))
STYLE = Style(14)
GOOD, BAD = "The drill is in stock.", "It is."


def reaction(answer, **what):
    drawn = {"silent": False, "mistaken": False, "corrects": False, "phrasing": 0.0} | what
    return react(QUESTION, answer, STYLE, Mood(**drawn))


def test_a_thumb_tells_the_truth_unless_the_user_is_mistaken():
    assert reaction(GOOD).thumb is True
    assert reaction(BAD).thumb is False
    assert reaction(GOOD, mistaken=True).thumb is False
    assert reaction(BAD, mistaken=True).thumb is True


def test_only_a_disliked_answer_is_corrected():
    assert reaction(GOOD, corrects=True).kind == "thumb"
    corrected = reaction(BAD, corrects=True, phrasing=0.99)
    assert (corrected.kind, corrected.correction, corrected.thumb) == ("correction", "The drill is in stock.", None)


def test_a_silent_user_says_nothing_whatever_the_answer():
    for answer in (GOOD, BAD):
        assert reaction(answer, silent=True, mistaken=True, corrects=True).kind == "silence"


def test_shares_are_as_stated_over_many_users():
    moods = [mood(7, n, Habits()) for n in range(5000)]
    spoken = [m for m in moods if not m.silent]
    assert abs(len(spoken) / 5000 - 0.4) < 0.03
    assert abs(sum(m.mistaken for m in spoken) / len(spoken) - 0.1) < 0.03
    assert abs(sum(m.corrects for m in spoken) / len(spoken) - 0.1) < 0.03


def test_a_seed_repeats_its_moods_and_another_does_not():
    assert [mood(7, n, Habits()) for n in range(50)] == [mood(7, n, Habits()) for n in range(50)]
    assert [mood(7, n, Habits()) for n in range(50)] != [mood(8, n, Habits()) for n in range(50)]


def test_every_question_is_asked_before_any_is_asked_again():
    asked = order(3, 10, 25)
    assert sorted(asked[:10]) == sorted(asked[10:20]) == list(range(10))
    assert asked == order(3, 10, 25)
    assert len(asked) == 25
