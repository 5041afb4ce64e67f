import json
import re
from dataclasses import replace

import jsonschema
import pytest

from headrace_local.demo import charts, report
from headrace_local.demo.facts import Facts, Measurement, Rollback, VersionFacts


def measurement(events, version, liked, tokens, n=40):
    answers = tuple(f"answer {version} <{i}>" for i in range(n))
    return Measurement(events, version, answers, tuple(i < liked for i in range(n)), n * 20, tokens * n, 9.0)


def facts(**changes):
    made = Facts("online shop", "short", 7, 0.8, 256, questions=tuple(f"Question {i}?" for i in range(40)), git="abc")
    made.curve = [measurement(0, 0, 0, 47), measurement(32, 1, 16, 28), measurement(96, 3, 34, 11)]
    made.versions = [
        VersionFacts(1, 32, "promoted", "promote", "better", 0.58, 0.31, 41.0, 70, 30, 0, 32),
        VersionFacts(2, 64, "held", "hold", "not enough evidence", 0.6, 0.58, 2.1, 75, 31, 1, 64),
        VersionFacts(3, 96, "promoted", "promote", "better", 0.9, 0.58, 99.0, 75, 31, 1, 64),
    ]
    made.events, made.requests = 96, 400
    made.reactions.update({"silence": 300, "thumb": 88, "mistaken thumb": 6, "correction": 2})
    made.stages_s.update(start=60.0, asking=150.0, training=220.0, gate=90.0, held_out=30.0, rollback=0.5)
    made.rollback = Rollback(3, 1, 0.04, ("q", "r"), ("n1", "n2"), ("o1", "o2"), ("o1", "o3"))
    return replace(made, **changes)


SHAPE = {
    "type": "object",
    "required": ["curve", "failed_requests", "stages_s", "versions", "rollback", "seed", "git", "events_to_target"],
    "properties": {
        "curve": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["events", "satisfaction", "tokens_per_answer", "version"],
                "properties": {"satisfaction": {"type": "number", "minimum": 0, "maximum": 1}},
            },
        },
        "failed_requests": {"type": "integer"},
        "stages_s": {"type": "object", "additionalProperties": {"type": "number"}},
    },
}


def test_the_json_has_the_shape_that_benchmarks_read():
    told = json.loads(json.dumps(facts().to_json()))
    jsonschema.Draft202012Validator(SHAPE).validate(told)
    assert told["curve"][2] | {"usd_per_accepted_answer": 0} == {
        "events": 96,
        "satisfaction": 0.85,
        "tokens_per_answer": 11.0,
        "version": 3,
        "usd_per_accepted_answer": 0,
        "n": 40,
    }
    assert told["events_to_target"] == 96
    assert told["reached"] is True
    assert told["rollback"]["same"] == 1


def test_cost_of_an_accepted_answer_is_tokens_times_price_over_liked_answers():
    m = measurement(0, 1, 10, 50)
    assert m.usd_per_accepted == pytest.approx((800 * 0.10 + 2000 * 0.40) / 1e6 / 10)
    assert measurement(0, 0, 0, 50).usd_per_accepted is None


def test_a_target_that_was_passed_and_lost_again_was_needed_at_its_first_time_but_is_not_reached():
    lost = facts(curve=[measurement(0, 0, 0, 47), measurement(32, 1, 36, 12), measurement(64, 2, 8, 12)])
    assert lost.events_to_target() == 32
    assert lost.reached is False


def test_examples_are_questions_that_users_like_now_and_did_not():
    one = facts(curve=[measurement(0, 0, 2, 47), measurement(32, 1, 4, 12)])
    assert one.best_examples() == [2, 3, 0]
    assert facts(curve=[]).best_examples() == []


def test_a_chart_is_a_pure_function_of_its_rows():
    curve = facts().to_json()["curve"]
    before = json.dumps(curve)
    assert charts.learning(curve, 0.8) == charts.learning(curve, 0.8)
    assert json.dumps(curve) == before
    assert [row["label"] for row in charts.learning(curve, 0.8)["data"]["values"]] == ["v0", "v1", "v3"]
    assert [row["events"] for row in charts.cost(curve)["data"]["values"]] == [32, 96]
    assert charts.gate([vars(v) for v in facts().versions])["data"]["values"][1]["outcome"] == "held"


@pytest.mark.parametrize("dark", [False, True])
def test_every_chart_renders_with_its_marks(dark):
    for name, spec in report.specs(facts()).items():
        svg = report.render(spec, dark=dark)
        assert svg.startswith("<svg"), name
        assert svg.count("<path") > 3, name


def test_charts_of_nothing_render_too():
    empty = facts(versions=[], curve=[measurement(0, 0, 0, 47)], rollback=None)
    for spec in report.specs(empty).values():
        assert report.render(spec, dark=False).startswith("<svg")


def test_the_report_is_one_page_that_asks_for_nothing_and_escapes_what_the_model_says(tmp_path):
    page = report.write(facts(), tmp_path / "report").read_text()
    assert "answer 3 &lt;" in page
    assert "answer 3 <" not in page
    assert not re.search(r'(src|href)="(http|//)', page)
    assert "<script" not in page
    assert "96 pieces of feedback took held-out satisfaction to 80%" in page
    assert "1 of 2 old answers are back" in page
    assert (tmp_path / "report" / "learning-light.svg").exists()
    assert json.loads((tmp_path / "report" / "demo.json").read_text())["events"] == 96


def test_a_report_of_a_demo_that_taught_nothing_says_so(tmp_path):
    poor = facts(versions=[], curve=[measurement(0, 0, 0, 47)], rollback=None, events=32, notes=["Ended early: <why>"])
    page = report.write(poor, tmp_path).read_text()
    assert "32 pieces of feedback did not take held-out satisfaction to 80%" in page
    assert "No version was trained" in page
    assert "nothing to roll back" in page
    assert "Ended early: &lt;why&gt;" in page
