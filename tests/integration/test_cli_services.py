"""The command against the real registry, evaluation and feedback services over real HTTP."""

import asyncio
import base64
import contextlib
import json
import socket

import pytest
import uvicorn
from pydantic import SecretStr
from registry_world import TOKEN, platform, registry

from headrace_cli.__main__ import run
from headrace_evaluation.app import build as build_evaluation
from headrace_evaluation.settings import EvaluationSettings, PlacesSettings
from headrace_feedback.app import build as build_feedback
from headrace_feedback.settings import FeedbackSettings
from headrace_kit.migrate import upgrade
from headrace_kit.testing import MemoryBroker, MemoryBus

POLICY = """policy: support
base_model: tiny
reward:
  parts:
    - {name: user, kind: feedback}
gate: {suite: private}
"""


@contextlib.asynccontextmanager
async def served(app):
    """An app on a port of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class Shell:
    """Somebody at a terminal."""

    def __init__(self, capsys):
        self._capsys = capsys
        self.world = None

    async def __call__(self, *arguments):
        """(status, stdout, stderr)"""
        self._capsys.readouterr()
        status = await asyncio.to_thread(run, list(arguments))
        said = self._capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return status, said.out, said.err


@pytest.fixture
def shell(capsys, monkeypatch, tmp_path):
    for name in ("REGISTRY_URL", "EVALUATION_URL", "GATEWAY_URL", "ADMIN_TOKEN", "API_KEY", "ROOT"):
        monkeypatch.delenv(f"HEADRACE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(capsys)


@pytest.fixture
async def city(shell, monkeypatch, database_url):
    """All the services that the command talks to; `shell.world` is the registry's."""
    for package in ("headrace_evaluation", "headrace_feedback"):
        await upgrade(database_url, package)
    key = SecretStr(base64.urlsafe_b64encode(bytes(32)).decode())
    evaluation = build_evaluation(
        EvaluationSettings(key=key, api_key=SecretStr("hr_x")),
        platform(database_url),
        PlacesSettings(),
        bus=MemoryBus(MemoryBroker()),
    )
    feedback = build_feedback(FeedbackSettings(), platform(database_url), bus=MemoryBus(MemoryBroker()))
    async with contextlib.AsyncExitStack() as stack:
        world = await stack.enter_async_context(registry(database_url))
        for service in (evaluation, feedback):
            await service.start()
            stack.push_async_callback(service.stop)
        for name, app in (("REGISTRY", world.service.app), ("EVALUATION", evaluation.app), ("GATEWAY", feedback.app)):
            monkeypatch.setenv(f"HEADRACE_{name}_URL", await stack.enter_async_context(served(app)))
        monkeypatch.setenv("HEADRACE_ADMIN_TOKEN", TOKEN)
        monkeypatch.setenv("HEADRACE_API_KEY", TOKEN)  # the gateway would check a key and pass the call on
        shell.world = world
        yield shell


async def test_a_policy_from_its_file_to_a_champion_and_back(city, tmp_path):
    world, file = city.world, tmp_path / "support.yaml"
    file.write_text(POLICY)
    status, out, err = await city("apply", "-f", str(file), "--by", "ada")
    assert (status, err) == (0, "")
    assert out.startswith("Applied support, revision 1 (")
    assert "headrace evals push private -f cases.jsonl" in out
    assert (await city("apply", "-f", str(file)))[1].startswith("Nothing has changed in support, revision 1")

    await world.say(world.checkpoint(1), world.observed())
    await world.became(1, "registered")
    status, _, err = await city("promote", "support@v1")
    assert status == 1
    assert "insist with --force --reason TEXT" in err
    await world.say(world.observed(1), world.report(1, "promote"))
    await world.became(1, "champion")

    status, out, _ = await city("explain", "support@v1")
    assert status == 0
    for said in (
        "support@v1  champion",
        "Parent    base, on tiny",
        "32 trajectories",
        "manifest 000000000000 at manifests/1",
        "policy file revision 1",
        "run-1, recipe default",
        "loss 0.5",
        "promote, ",
        "40 cases: 0.80 against 0.10 of the base model; evidence 50, 20 needed",
        "Promoted  by ",
        "r1: ready, seen ",
        "proved in 1.0 s",
        "History ",
    ):
        assert said in out, (said, out)
    assert json.loads((await city("explain", "support", "--json"))[1])["version"] == 1

    listed = (await city("versions", "list"))[1]
    assert "support@v1" in listed
    assert "support@base" in listed
    assert [v["version"] for v in json.loads((await city("versions", "list", "support", "--json"))[1])] == [1, 0]
    assert "champion" in (await city("versions", "show"))[1]
    assert json.loads((await city("versions", "show", "support@v1", "--json"))[1])["state"] == "champion"

    status, out, _ = await city("rollback", "--reason", "it lies")
    assert (status, out) == (0, "The base model answers for support now (epoch 4).\n")
    assert "quarantined" in (await city("explain", "support@v1"))[1]
    status, _, err = await city("rollback", "support")
    assert status == 1
    assert err.count("\n") == 1


async def test_names_that_do_not_exist_get_a_sentence_with_the_mend(city, tmp_path):
    (tmp_path / "p.yaml").write_text(POLICY)
    await city("apply", "-f", "p.yaml")
    for arguments, status, words in (
        (("explain", "nobody@v1"), 1, "`headrace apply -f FILE` makes one"),
        (("explain", "support@v9"), 1, "`headrace versions list support` shows those that there are"),
        (("explain", "support@nine"), 2, "say POLICY@vN"),
        (("promote", "support@champion"), 2, "Say which version as a number: support@v3"),
        (("promote", "support@v1", "--force"), 2, "--reason"),
        (("keys", "revoke", "nonesuch"), 1, "nonesuch"),
        (("keys", "create", "x", "--scope", "all"), 2, "there are inference, feedback, evaluate"),
        (("versions", "list", "Sup port"), 2, "names no version"),
    ):
        got, _, err = await city(*arguments)
        assert (got, err.count("\n")) == (status, 1), (arguments, err)
        assert words in err, (arguments, err)


async def test_a_bad_policy_file_is_told_by_line_and_field(city, tmp_path):
    (tmp_path / "bad.yaml").write_text(POLICY.replace("gate: {suite: private}", "gate: {suit: private}"))
    status, _, err = await city("apply", "-f", "bad.yaml")
    assert status == 1
    assert "bad.yaml:6: gate.suite: is missing" in err
    assert "bad.yaml:6: gate.suit: is not a field of a policy file" in err


async def test_a_suite_is_pushed_and_a_bad_case_is_told_by_line(city, tmp_path):
    case = {"id": "a", "prompt": "Where is it?", "rule": {"max_words": 14}}
    (tmp_path / "good.jsonl").write_text(json.dumps(case) + "\n\n" + json.dumps(case | {"id": "b"}) + "\n")
    status, out, err = await city("evals", "push", "private", "-f", "good.jsonl")
    assert (status, err) == (0, "")
    assert out.startswith("Pushed private: 2 cases (")
    assert (await city("evals", "push", "private", "-f", "good.jsonl"))[1].startswith("Nothing has changed in private")
    assert "private" in (await city("evals", "list"))[1]
    assert "prompt" not in (await city("evals", "list", "--json"))[1]
    assert "Nothing has been examined yet" in (await city("evals", "reports"))[1]
    (tmp_path / "bad.jsonl").write_text(
        json.dumps(case) + "\n\n" + json.dumps(case | {"id": "b", "rule": {"max_wrds": 1}}) + "\n"
    )
    status, _, err = await city("evals", "push", "private", "-f", "bad.jsonl")
    assert status == 1
    assert err.startswith("bad.jsonl:3: rule")
    (tmp_path / "odd.yaml").write_text("cases: [{id: a, prompt: x, rule: {max_words: .inf}}]")
    assert "cannot be written as JSON" in (await city("evals", "push", "private", "-f", "odd.yaml"))[2]
    (tmp_path / "cut.jsonl").write_text('{"id": "a"}\n{"id":')
    assert (await city("evals", "push", "private", "-f", "cut.jsonl"))[2].startswith("cut.jsonl:2: not JSON")


async def test_keys_are_made_listed_and_revoked_and_the_secret_stands_alone_on_stdout(city):
    status, out, err = await city("keys", "create", "shop", "--scope", "feedback")
    assert status == 0
    prefix = out.split("_")[1]
    assert out.startswith(f"hr_{prefix}_")
    assert out.count("\n") == 1
    assert f"headrace keys revoke {prefix}" in err
    assert out.strip() not in (await city("keys", "list"))[1]
    assert (await city("keys", "revoke", prefix))[0] == 0
    listed = json.loads((await city("keys", "list", "--json"))[1])
    assert [(k["prefix"], k["revoked"]) for k in listed] == [(prefix, True)]


async def test_feedback_by_hand(city):
    inference = "chatcmpl-" + "0" * 32 + "-" + "1" * 32
    status, out, _ = await city("feedback", inference, "accepted", "true", "--comment", "well", "--source", "u1")
    assert status == 0
    assert out.startswith("Taken as fb_")
    assert (await city("feedback", inference, "comment", "42"))[0] == 0
    assert (await city("feedback", "order-7", "accepted", "null", "--correlation"))[0] == 0
    for infinite in ("NaN", "-Infinity", "1e999"):
        status, _, err = await city("feedback", inference, "edited", "--", infinite)
        assert (status, err) == (2, f"{infinite} is no number that feedback can carry: give a finite one.\n")
    status, _, err = await city("feedback", inference, "9lives", "true")
    assert status == 1
    assert "metric" in err


async def test_what_is_away_foreign_or_locked_gets_a_sentence(city, monkeypatch):
    monkeypatch.setenv("HEADRACE_ADMIN_TOKEN", "wrong" * 6)
    status, _, err = await city("versions", "list")
    assert status == 1
    assert err.startswith("The registry does not accept HEADRACE_ADMIN_TOKEN")
    monkeypatch.delenv("HEADRACE_ADMIN_TOKEN")
    assert "The admin token is missing" in (await city("versions", "list"))[2]
    monkeypatch.setenv("HEADRACE_ADMIN_TOKEN", TOKEN)
    for address, words in (
        ("http://127.0.0.1:1", "cannot be reached"),
        ("not an address", "cannot be reached"),
    ):
        monkeypatch.setenv("HEADRACE_REGISTRY_URL", address)
        status, _, err = await city("versions", "list")
        assert (status, err.count("\n")) == (1, 1)
        assert words in err
        assert "`headrace up` starts the stack" in err

    async def foreign(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    async with served(foreign) as address:
        monkeypatch.setenv("HEADRACE_REGISTRY_URL", address)
        assert "is no registry of Headrace: check HEADRACE_REGISTRY_URL" in (await city("versions", "list"))[2]


async def test_without_a_stack_every_command_says_what_to_do(shell):
    for arguments, words in (
        (("status",), "`headrace up` starts one"),
        (("versions", "list"), "start one with `headrace up`"),
        (("evals", "list"), "HEADRACE_EVALUATION_URL is not set"),
        (("feedback", "x", "accepted", "true"), "HEADRACE_GATEWAY_URL is not set"),
        (("logs", "gateway"), "`headrace up` does it"),
    ):
        status, _, err = await shell(*arguments)
        assert (status, err.count("\n")) == (1, 1), err
        assert words in err
    assert (await shell("down"))[:2] == (0, "No stack ran here.\n")
    status, out, _ = await shell("doctor", "--json")
    assert {c["verdict"] for c in json.loads(out)} <= {"ok", "warning", "problem"}
    assert status in (0, 1)
    for arguments, words in (
        (("up", "--broker", "carrier pigeon"), "none of embedded, kafka and host:port"),
        (("up", "--engine", "steam"), "neither vllm nor none"),
        (("demo", "--events", "3"), "give at least 32"),
        (("bench", "nothing"), "there are "),
        (("bench", "events", "--set", "speed=9"), "has no parameter"),
    ):
        status, _, err = await shell(*arguments)
        assert (status, err.count("\n")) == (2, 1), err
        assert words in err
