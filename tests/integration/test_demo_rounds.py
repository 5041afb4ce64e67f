"""The demo's story on a company that is pretended behind real HTTP: the official client, the SDK and the driver are real."""

import asyncio
import hashlib
import io
import json
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import uvicorn
from rich.console import Console
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace_local.demo import report
from headrace_local.demo.asking import Assistant
from headrace_local.demo.control import Control
from headrace_local.demo.errors import DemoError
from headrace_local.demo.facts import Facts
from headrace_local.demo.options import POLICY, DemoOptions
from headrace_local.demo.rounds import Rounds
from headrace_local.demo.runner import write_policy
from headrace_local.demo.screen import Screen
from headrace_local.demo.users import Habits
from headrace_local.demo.world import shop_world
from headrace_schemas import PolicySpec

WORLD = replace(shop_world(), held_out=shop_world().held_out[:10])
ANSWERS = {q.text: q.answers[0] for q in (*WORLD.users, *WORLD.held_out, *WORLD.suite)}


class Company:
    """Gateway, registry, evaluation and training in one: each 8 pieces of feedback make a version that is `skill` good."""

    def __init__(self, skills=(0.0, 0.3, 1.0), held=(), fails=0):
        self.skills, self.held, self.fails = skills, held, fails
        self.champion, self.previous, self.versions = 0, None, []
        self.feedback, self.requests, self.policy, self.cases, self.runs = [], [], None, None, []
        self.trained_on = self.asked_whether_ready = 0

    def says(self, version, question):
        lot = int(hashlib.sha256(question.encode()).hexdigest(), 16) % 1000 / 1000
        return ANSWERS[question] if lot < self.skills[version] else "Thank you for asking!\n1. Please\n2. wait."

    def learn(self):
        while len(self.feedback) - self.trained_on >= 8:
            self.trained_on += 8
            number = len(self.versions) + 1
            if number >= len(self.skills):
                self.runs.insert(
                    0,
                    {
                        "run_id": f"r{number}-{self.trained_on}",
                        "state": "failed",
                        "reason": "out of memory",
                        "progress": None,
                    },
                )
                return
            outcome = "hold" if number in self.held else "promote"
            self.versions.insert(0, {
                "version": number, "role": None, "state": "registered", "verdict": None, "ready_on": [], "reason": "", "outcome": outcome,
                "candidate_score": None, "champion_score": None, "e_value": None, "parent_version": self.champion, "samples": 32, "looks": 0,
            })  # fmt: skip

    def look(self, row):
        row["looks"] += 1
        if row["looks"] == 2:
            row["ready_on"] = ["local"]
        if row["looks"] == 3:
            row |= {"verdict": row["outcome"], "candidate_score": 0.9, "champion_score": 0.4, "e_value": 30.0}
            row["state"] = "evaluated"
            if row["outcome"] == "promote":
                row |= {"state": "champion", "role": "champion"}
                self.previous, self.champion = self.champion, row["version"]

    # ---- HTTP -------------------------------------------------------------------------------------------------------
    async def chat(self, request):
        body = await request.json()
        self.requests.append(body)
        if self.fails > 0:
            self.fails -= 1
            return JSONResponse({"error": {"message": "down", "type": "server_error", "param": None, "code": "x"}}, 500)
        await asyncio.sleep(0.002)
        text, number = self.says(self.champion, body["messages"][0]["content"]), len(self.requests)
        return JSONResponse({
            "id": f"chatcmpl-{number:032x}-{number:032x}", "object": "chat.completion", "created": 1, "model": f"support@v{self.champion}",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 20, "completion_tokens": len(text.split()) + 2, "total_tokens": 40},
        })  # fmt: skip

    async def batch(self, request):
        items = (await request.json())["items"]
        self.feedback += items
        self.learn()
        return JSONResponse({"accepted": len(items), "rejected": []}, 202)

    async def apply(self, request):
        self.policy = await request.json()
        return JSONResponse({"policy": POLICY}, 201)

    async def suite(self, request):
        self.cases = await request.json()
        return JSONResponse({}, 201)

    async def list_versions(self, _):
        for row in self.versions:
            self.look(row)
        return JSONResponse({"data": self.versions})

    async def explain(self, request):
        row = next(r for r in self.versions if r["version"] == request.path_params["version"])
        return JSONResponse({"reports": [{"because": f"e-value {row['e_value']}"}]})

    async def roll_back(self, _):
        self.champion, self.previous = self.previous, self.champion
        return JSONResponse({"status": "done"})

    async def promote(self, request):
        self.champion = (await request.json())["version"]
        return JSONResponse({"status": "done"})

    async def ready(self, _):
        self.asked_whether_ready += 1
        return JSONResponse({}, 503 if self.asked_whether_ready < 3 else 200)

    async def list_runs(self, _):
        return JSONResponse({"runs": self.runs, "policies": [{"because": "waits"}]})

    def app(self):
        one = "/v1/policies/support"
        return Starlette(routes=[
            Route("/v1/chat/completions", self.chat, methods=["POST"]), Route("/v1/feedback/batch", self.batch, methods=["POST"]),
            Route(one, self.apply, methods=["PUT"]), Route("/v1/suites/{name}", self.suite, methods=["PUT", "POST"]),
            Route(f"{one}/versions", self.list_versions), Route("/v1/versions/support/{version:int}", self.explain),
            Route(f"{one}/rollback", self.roll_back, methods=["POST"]), Route(f"{one}/promote", self.promote, methods=["POST"]),
            Route("/v1/runs", self.list_runs), Route("/health/ready", self.ready),
        ])  # fmt: skip


class Place:
    """What the demo needs of a StackState."""

    api_key, admin_token, base_model = "hr_x_y", "t" * 24, "Smol"

    def __init__(self, port, root):
        self.root = root
        self.gateway_url = self.registry_url = self.evaluation_url = f"http://127.0.0.1:{port}"

    def url(self, _):
        return self.gateway_url


@asynccontextmanager
async def open_for_business(company, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(company.app(), port=port, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield Place(port, tmp_path)
    server.should_exit = True
    await task


async def demo(company, tmp_path, **chosen):
    options = DemoOptions(**({"events": 32, "seed": 5, "per_round": 8} | chosen))
    out = io.StringIO()
    facts = Facts(
        "shop",
        WORLD.style.in_words(),
        options.seed,
        options.target,
        options.events,
        questions=tuple(q.text for q in WORLD.held_out),
    )
    async with open_for_business(company, tmp_path) as place:
        async with Assistant(place, WORLD, options, Habits()) as assistant, Control(place, POLICY) as control:
            with Screen(Console(file=out, width=200)) as screen:
                rounds = Rounds(options, WORLD, assistant, control, facts, screen)
                await rounds.prepare(write_policy(place, options))
                try:
                    await rounds.play()
                    await rounds.go_back()
                finally:
                    facts.requests, facts.failed_requests = assistant.requests, assistant.failed
    return facts, out.getvalue()


async def test_users_teach_the_company_until_they_are_satisfied_and_the_old_answers_come_back(tmp_path):
    company = Company()
    facts, shown = await demo(company, tmp_path)
    assert [m.version for m in facts.curve] == [0, 1, 2]
    assert [m.events for m in facts.curve] == [0, 8, 16]
    assert facts.reached
    assert facts.events_to_target() == 16
    assert (facts.failed_requests, facts.events) == (0, 16)
    assert facts.rollback.to_version == 1
    assert facts.rollback.same == 3
    assert company.champion == 1
    assert "held-out satisfaction" in shown
    assert {"start", "asking", "training", "gate", "held_out", "rollback"} <= set(facts.stages_s)
    json.dumps(facts.to_json())
    report.write(facts, tmp_path / "report")


async def test_each_round_gives_exactly_as_much_feedback_as_starts_a_run_and_says_nothing_of_the_style(tmp_path):
    company = Company()
    facts, _ = await demo(company, tmp_path)
    assert len(company.feedback) == 16
    assert {item["metric_name"] for item in company.feedback} == {"accepted", "demonstration"}
    assert facts.reactions.total() - facts.reactions["silence"] == 16
    assert facts.reactions["silence"] > 16
    PolicySpec.model_validate(company.policy)
    assert "words" not in json.dumps(company.policy)


async def test_held_out_and_suite_questions_never_get_feedback_and_are_kept_out_of_training(tmp_path):
    company = Company()
    await demo(company, tmp_path)
    users = {q.text for q in WORLD.users}
    for body in company.requests:
        question = body["messages"][0]["content"]
        learns = body.get("headrace", {}).get("train", True)
        assert learns == (question in users), question
        assert body["temperature"] == (1.0 if learns else 0)
    assert not {q.text for q in WORLD.suite} & {b["messages"][0]["content"] for b in company.requests}


async def test_a_held_version_is_told_and_measured_no_second_time(tmp_path):
    facts, shown = await demo(Company(skills=(0.0, 0.1, 1.0), held=(1,)), tmp_path)
    assert [v.outcome for v in facts.versions] == ["held", "promoted"]
    assert [(m.events, m.version) for m in facts.curve] == [(0, 0), (16, 2)]
    assert facts.rollback.to_version == 0
    assert "held" in shown


async def test_the_demo_ends_when_the_events_are_used_up(tmp_path):
    facts, _ = await demo(Company(skills=(0.0, 0.1, 0.2, 0.3)), tmp_path, events=19)
    assert (facts.events, facts.reached, facts.events_to_target()) == (16, False, None)
    assert len(facts.curve) == 3


async def test_a_gateway_that_fails_for_a_moment_is_asked_again_by_the_client_and_fails_no_request(tmp_path):
    facts, _ = await demo(Company(fails=3), tmp_path)
    assert facts.failed_requests == 0
    assert facts.reached


async def test_runs_that_bring_no_version_end_the_demo_with_their_reason(tmp_path):
    with pytest.raises(DemoError, match="2 rounds in a row brought no version: failed: out of memory"):
        await demo(Company(skills=(0.0,)), tmp_path)


async def test_with_keep_the_newer_version_answers_again_at_the_end(tmp_path):
    company = Company()
    await demo(company, tmp_path, keep=True)
    assert company.champion == 2
