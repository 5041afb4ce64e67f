"""What the page says."""

import pytest
from console_rows import NOW, at, evaluation, facts, replica, route, run, series, tally, version

from headrace_console.core.outlook import outlook
from headrace_console.core.overview import overview

WELL = {"replicas": (replica(),), "answers": (tally(0, mean=39.0),), "feedback": (9, NOW)}


@pytest.mark.parametrize(
    ("given", "sentence", "command"),
    [
        (facts(policy=None, policies=()), "No policy yet", "headrace apply -f policy.yaml"),
        (facts(), "No engine answers", "headrace status"),
        (facts(replicas=(replica(minutes=-2),)), "No engine answers", "headrace status"),
        (facts(replicas=(replica(healthy=False),)), "No engine answers", "headrace status"),
        (facts(replicas=(replica(),)), "support is ready for its first question", "openai.chat"),
        (facts(**WELL | {"feedback": (0, None)}), "40 answers, and nobody has said", "headrace feedback ID accepted"),
        (facts(**WELL), "The base model answers", ""),
        (facts(**WELL, routes=(route(4, 2, 0), route(1, 0))), "v2 answers", ""),
    ],
)
def test_the_sentence_says_where_the_loop_stands_and_what_to_type_next(given, sentence, command):
    said = overview(given, NOW).outlook
    assert said.sentence.startswith(sentence)
    assert said.command.startswith(command)


@pytest.mark.parametrize(
    ("given", "fresh", "detail"),
    [
        (facts(**WELL), 12, "20 more scored answers until the next run (12 of 32)."),
        (facts(**WELL), 40, "40 scored answers wait to be learnt from; the next run starts or is on its way."),
        (facts(**WELL, routes=(route(2, 0, candidates=[1]),)), 0, "v1 is loaded and goes through the gate now."),
        (
            facts(**WELL, routes=(route(2, 0, candidates=[1]),), evaluations=(evaluation(1, "hold"),)),
            0,
            "v1 went through the gate: hold.",
        ),
    ],
)
def test_the_line_below_says_what_comes_next(given, fresh, detail):
    assert outlook(given, fresh, engine_ready=True).detail == detail


def test_only_answers_after_the_newest_run_count_for_the_next_one():
    page = overview(facts(series=series(50) + series(7, start=-1), runs=(run(1, minutes=-10),)), NOW)
    assert page.stations[2].note == "7 of 32 for the next run"


def test_a_version_has_its_lineage_its_verdict_and_what_users_say():
    page = overview(
        facts(
            versions=(version(2), version(1)),
            runs=(run(2, 64), run(1)),
            evaluations=(evaluation(2, "promote"), evaluation(2, "hold", minutes=-9), evaluation(1, "reject")),
            routes=(route(5, 2, 0, minutes=-1), route(4, 0), route(1, 0)),
            rewards=(tally(0, mean=0.1), tally(2, mean=0.9)),
            answers=(tally(0, mean=39.0, failed=2),),
        ),
        NOW,
    )
    assert [(v.version, v.role) for v in page.versions] == [(2, "champion"), (1, ""), (0, "previous")]
    two = page.line(2)
    assert (two.samples, two.recipe, two.gate.verdict, two.reward.mean) == (64, "default", "promote", 0.9)
    assert page.failed == 2
    assert page.stations[0].note == "2 requests failed"


def test_a_rollback_is_marked_and_the_first_route_is_no_change():
    page = overview(facts(routes=(route(3, 0), route(2, 2), route(1, 0))), NOW)
    assert [(c.version, c.back) for c in page.changes] == [(2, False), (0, True)]


def test_a_version_that_answers_before_it_is_registered_here_is_shown_all_the_same():
    page = overview(facts(rewards=(tally(7),), evaluations=(evaluation(8),)), NOW)
    assert [v.version for v in page.versions] == [8, 7]


def test_a_silent_replica_is_away_and_other_policies_adapters_are_not_ours():
    adapters = [
        {"policy": "support", "version": 2, "state": "ready"},
        {"policy": "support", "version": 1, "state": "failed"},
        {"policy": "other", "version": 5, "state": "ready"},
    ]
    page = overview(facts(replicas=(replica(adapters=adapters), replica(minutes=-2))), NOW)
    assert [(r.state, r.ready, r.failed) for r in page.replicas] == [("ready", ("v2",), ("v1",)), ("away", (), ())]


def test_nothing_at_all_is_a_page_too():
    page = overview(facts(policy=None, policies=(), spec=None), at(0))
    assert page.versions == ()
    assert [s.count for s in page.stations] == [0] * 6
