"""Charts as data: what a spec holds, and that the real renderer takes it."""

import pytest
from console_rows import NOW, at, evaluation, facts, route, series, tally, version

from headrace_console.core.charts import POINTS, SHOWN, WATER, charts, reward_by_version, reward_over_answers
from headrace_console.core.overview import Change, overview
from headrace_console.drawing import draw

FULL = facts(
    versions=(version(2), version(1)),
    evaluations=(evaluation(2),),
    routes=(route(5, 2, 0, minutes=-1), route(1, 0, minutes=-90)),
    rewards=(tally(0, 75, 0.18, 0.39), tally(2, 1, 1.0, None)),
    answers=(tally(0, 100, 39.4, 4.0), tally(2, 130, 12.1, 3.0)),
    series=series(75, 0, 0.0) + series(100, 2, 1.0, start=-30),
)


def test_no_rows_no_chart():
    assert charts(overview(facts(), NOW)) == {}


def test_a_bar_carries_its_n_its_interval_and_whether_it_is_the_champion():
    assert charts(overview(FULL, NOW))["satisfaction"]["data"]["values"] == [
        {"version": "base|n=75", "mean": 0.18, "low": 0.0917, "high": 0.2683, "text": "0.18", "champion": False},
        {"version": "v2|n=1", "mean": 1.0, "low": 1.0, "high": 1.0, "text": "1.00", "champion": True},
    ]


def test_the_structure_of_a_bar_chart():
    spec = charts(overview(FULL, NOW))["tokens"]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["bar", "rule", "text"]
    assert spec["layer"][0]["encoding"]["color"]["condition"] == {"test": "datum.champion", "value": WATER}
    assert {layer["encoding"]["x"]["field"] for layer in spec["layer"]} == {"version"}
    assert [row["text"] for row in spec["data"]["values"]] == ["39.4", "12.1"]


def test_the_curve_groups_answers_and_marks_where_the_champion_changed():
    spec = reward_over_answers(
        series(100, reward=0.5), [Change(at(-60), 2, back=False), Change(at(0), 0, back=True)], 400
    )
    points = spec["data"]["values"]
    assert len(points) <= POINTS
    assert sum(p["n"] for p in points) == 100
    assert points[-1]["answer"] == 100
    assert spec["layer"][0]["data"]["values"] == [
        {"answer": 1, "label": "v2", "back": False},
        {"answer": 100, "label": "base", "back": True},
    ]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["rule", "text", "area", "line", "point"]


def test_two_hundred_versions_keep_the_base_the_champion_and_the_newest():
    many = facts(
        routes=(route(9, 3),),
        versions=tuple(version(n) for n in range(200, 0, -1)),
        rewards=tuple(tally(n) for n in range(201)),
    )
    shown = [row["version"].split("|")[0] for row in charts(overview(many, NOW))["satisfaction"]["data"]["values"]]
    assert len(shown) == SHOWN
    assert shown[:2] == ["base", "v3"]
    assert shown[-1] == "v200"


def test_a_mean_without_answers_is_left_out():
    assert reward_by_version(overview(facts(rewards=(tally(1, 0, None, None),)), NOW).versions)["data"]["values"] == []


@pytest.mark.parametrize("name", ["reward", "reward-narrow", "satisfaction", "tokens"])
def test_the_renderer_draws_each_chart_in_the_pages_colours_and_without_style_attributes(name):
    svg = draw(name, charts(overview(FULL, NOW))[name])
    assert svg.startswith("<svg ")
    assert f'data-chart="{name}"' in svg
    assert 'fill="var(--muted)"' in svg
    assert "#1f7a8d" not in svg
    assert "style=" not in svg
    assert "NaN" not in svg
    assert svg.count(' id="clip') == 0
