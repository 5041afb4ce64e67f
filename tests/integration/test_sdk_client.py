"""The SDK's clients against a real HTTP server that fails in all ways."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from feedback_server import feedback_server, free_port

from headrace import AsyncHeadrace, FeedbackError, Headrace


class Blocking:
    """Both clients through the same scenarios: this one is called directly."""

    def __init__(self, *args, **options):
        self.client = Headrace(*args, **options)

    async def flush(self, timeout=10.0):
        return await asyncio.to_thread(self.client.flush, timeout)

    async def close(self, timeout=5.0):
        await asyncio.to_thread(self.client.close, timeout)


class Awaited:
    def __init__(self, *args, **options):
        self.client = AsyncHeadrace(*args, **options)

    async def flush(self, timeout=10.0):
        return await self.client.flush(timeout)

    async def close(self, timeout=5.0):
        await self.client.close(timeout)


@pytest.fixture(params=[Blocking, Awaited], ids=["sync", "async"])
def make(request):
    return request.param


async def test_the_id_comes_at_once_and_is_the_one_that_arrives(make):
    with feedback_server() as server:
        user = make(server.url, "hr_key")
        began = time.perf_counter()
        given = user.client.accepted("chatcmpl-1", comment="good", source="u_1", tags={"surface": "editor"})
        assert time.perf_counter() - began < 1.0
        assert await user.flush()
        assert list(server.accepted) == [given]
        assert server.accepted[given]["tags"] == {"surface": "editor"}
        assert server.headers[0]["authorization"] == "Bearer hr_key"
        await user.close()


async def test_the_four_short_forms(make):
    with feedback_server() as server:
        user = make(f"{server.url}/v1/", "k")
        c = user.client
        ids = [c.accepted("a"), c.rejected("a"), c.corrected("a", "so"), c.comment("a", "hm")]
        await user.close()
        assert [(server.accepted[i]["metric_name"], server.accepted[i]["value"]) for i in ids] == [
            ("accepted", True),
            ("accepted", False),
            ("demonstration", "so"),
            ("comment", "hm"),
        ]


async def test_many_pieces_go_in_batches_of_fifty(make):
    with feedback_server() as server:
        user = make(server.url, "k")
        ids = [user.client.accepted("a") for _ in range(120)]
        assert await user.flush()
        assert set(server.accepted) == set(ids)
        assert [len(r[2]) for r in server.requests] == [50, 50, 20]
        await user.close()


async def test_a_single_piece_goes_by_itself_after_a_second(make):
    with feedback_server() as server:
        user = make(server.url, "k", flush_every_s=0.3)
        user.client.accepted("a")
        await asyncio.sleep(0.1)
        assert not server.requests
        await asyncio.sleep(0.6)
        assert len(server.accepted) == 1
        await user.close()


@pytest.mark.parametrize("failure", ["503", "500", "429", "reset", "taken-then-reset", "hang"])
async def test_a_failure_that_passes_loses_nothing_and_repeats_the_same_ids(make, failure):
    with feedback_server(failure, failure) as server:
        user = make(server.url, "k", timeout_s=0.3)
        ids = [user.client.accepted("a") for _ in range(3)]
        assert await user.flush(10)
        assert set(server.accepted) == set(ids)
        assert [r[2] for r in server.requests] == [ids] * 3
        assert user.client.stats.delivered == 3
        await user.close()


async def test_retry_after_is_honoured(make):
    with feedback_server("429:1") as server:
        user = make(server.url, "k")
        user.client.accepted("a")
        assert await user.flush(10)
        assert server.requests[1][0] - server.requests[0][0] >= 1.0
        await user.close()


async def test_a_gateway_that_comes_up_later_gets_everything(make):
    port = free_port()
    user = make(f"http://127.0.0.1:{port}", "k")
    ids = [user.client.accepted("a") for _ in range(60)]
    assert not await user.flush(0.3)
    with feedback_server(port=port) as server:
        assert await user.flush(10)
        assert set(server.accepted) == set(ids)
        await user.close()


async def test_a_refused_piece_is_counted_and_its_batch_goes_on(make):
    with feedback_server("refuse-first") as server:
        user = make(server.url, "k")
        for _ in range(3):
            user.client.accepted("a")
        assert await user.flush()
        assert (user.client.stats.delivered, user.client.stats.refused) == (2, 1)
        assert len(server.requests) == 1
        await user.close()


async def test_a_wrong_key_is_not_tried_again(make, caplog):
    with feedback_server("401", "401") as server:
        user = make(server.url, "wrong")
        user.client.accepted("a")
        assert await user.flush()
        assert len(server.requests) == 1
        assert "the gateway answered 401" in caplog.text
        await user.close()


async def test_a_full_queue_drops_and_counts(make):
    user = make(f"http://127.0.0.1:{free_port()}", "k", queue_size=10)
    for _ in range(25):
        user.client.accepted("a")
    assert user.client.stats.dropped == 15
    await user.close(0.2)
    assert user.client.stats.dropped == 25


async def test_close_does_not_wait_longer_than_told(make):
    with feedback_server(*["hang"] * 5) as server:
        user = make(server.url, "k", timeout_s=2.0)
        user.client.accepted("a")
        began = time.perf_counter()
        await user.close(0.4)
        assert time.perf_counter() - began < 1.9
        assert user.client.stats.dropped == 1
        await user.close()


async def test_nothing_raises_without_a_gateway_and_strict_says_what_is_missing(make, monkeypatch):
    monkeypatch.delenv("HEADRACE_GATEWAY_URL", raising=False)
    user = make()
    assert user.client.accepted("a").startswith("fb_")
    assert user.client.stats.refused == 1
    await user.close()
    for bad in ({}, {"gateway_url": "localhost:80"}, {"gateway_url": "http://[::"}):
        with pytest.raises(FeedbackError):
            make(**bad, strict=True)


async def test_strict_raises_for_bad_arguments_refusals_and_after_closing(make):
    with feedback_server("refuse-first") as server:
        user = make(server.url, "k", strict=True)
        with pytest.raises(FeedbackError, match="exactly one"):
            user.client.record(metric_name="accepted", value=True)
        user.client.accepted("a")
        with pytest.raises(FeedbackError, match="no number"):
            await user.flush()
        await user.close()
        with pytest.raises(FeedbackError, match="closed"):
            user.client.accepted("a")


async def test_disabled_is_a_no_op(make, monkeypatch):
    monkeypatch.setenv("HEADRACE_DISABLED", "1")
    with feedback_server() as server:
        user = make(server.url, "k", strict=True)
        assert user.client.record(metric_name="", value=object()).startswith("fb_")
        assert user.client.accepted(None).startswith("fb_")
        assert await user.flush()
        await user.close()
        assert not server.requests


async def test_the_environment_says_where_the_gateway_is(make, monkeypatch):
    with feedback_server() as server:
        monkeypatch.setenv("HEADRACE_GATEWAY_URL", server.url)
        monkeypatch.setenv("HEADRACE_API_KEY", "from-env")
        user = make()
        user.client.accepted("a")
        await user.close()
        assert server.headers[0]["authorization"] == "Bearer from-env"


def test_a_client_is_shared_between_threads():
    with feedback_server("503", "reset") as server, Headrace(server.url, "k") as client:
        ids = []
        threads = [
            threading.Thread(target=lambda: ids.extend(client.accepted("a") for _ in range(100))) for _ in "1234"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.flush(10)
        assert set(server.accepted) == set(ids)
        assert len(ids) == 400


class Impatient(Headrace):
    IDLE_S = 0.2


def test_an_idle_client_keeps_no_thread():
    with feedback_server() as server, Impatient(server.url, "k") as client:
        client.accepted("a")
        client.flush()
        time.sleep(0.6)
        assert not [t for t in threading.enumerate() if t.name == "headrace-feedback"]
        client.accepted("a")
        assert client.flush()
        assert len(server.accepted) == 2


def test_an_event_loop_that_ends_early_loses_nothing():
    with feedback_server("503") as server:
        client = AsyncHeadrace(server.url, "k")

        async def say():
            client.accepted("a")
            await asyncio.sleep(0.01)

        client.accepted("a")  # no loop runs yet
        asyncio.run(say())
        asyncio.run(say())
        asyncio.run(client.close())
        assert len(server.accepted) == 3


def run(server, code):
    """A process of its own, from its start to its end."""
    environment = {"HEADRACE_GATEWAY_URL": server.url, "HEADRACE_API_KEY": "k", "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=30
    )


@pytest.mark.parametrize(
    "code",
    [
        "from headrace import Headrace; c = Headrace(); [c.accepted('a') for _ in range(3)]",
        "import asyncio, headrace; c = headrace.AsyncHeadrace(); [c.accepted('a') for _ in range(3)]",
        """
        import asyncio, headrace
        async def main():
            c = headrace.AsyncHeadrace()
            [c.accepted('a') for _ in range(3)]
            globals()["keep"] = c
        asyncio.run(main())
        """,
        """
        import atexit
        from headrace import Headrace
        c = Headrace()
        atexit.register(lambda: [c.accepted('a') for _ in range(3)])
        """,
    ],
    ids=["sync", "async-without-loop", "async", "first-call-at-exit"],
)
def test_the_end_of_the_process_sends_what_is_left(code):
    with feedback_server("503") as server:
        done = run(server, code)
        assert done.returncode == 0
        assert done.stderr == ""
        assert len(server.accepted) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_sends_each_piece_once_and_the_child_has_a_client_that_works():
    with feedback_server() as server:
        done = run(
            server,
            """
            import os
            from headrace import Headrace
            c = Headrace(flush_every_s=5)
            [c.accepted("parent") for _ in range(3)]
            if os.fork() == 0:
                c.accepted("child")
                assert c.flush()
                assert c.stats.delivered == 1
                os._exit(0)
            os.wait()
            c.close()
            assert c.stats.delivered == 3
            """,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(i["inference_id"] for i in server.accepted.values()) == ["child", "parent", "parent", "parent"]
        assert sum(len(r[2]) for r in server.requests) == 4


def test_it_works_beside_the_official_client():
    from openai.types.chat import ChatCompletion

    answer = ChatCompletion.model_construct(id="chatcmpl-abc", object="chat.completion", model="support@v7")
    with feedback_server() as server, Headrace(server.url, "k") as client:
        client.accepted(answer)
        client.flush()
        assert next(iter(server.accepted.values()))["inference_id"] == "chatcmpl-abc"


def test_the_slim_package_imports_nothing_but_its_http_client():
    code = """
    import sys, headrace
    heavy = {"pydantic", "headrace_kit", "headrace_schemas", "starlette", "aiokafka", "sqlalchemy", "torch", "openai"}
    print(sorted(heavy & set(sys.modules)))
    """
    with feedback_server() as server:
        assert run(server, code).stdout.strip() == "[]"
