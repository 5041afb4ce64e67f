"""An answer counts only where the gateway says that the version asked, and no other, gave it."""

import httpx2
import pytest

from headrace_evaluation.asking import Asker, NoAnswerError
from headrace_evaluation.core.suite import Case
from headrace_schemas.base import VersionRef

DIGEST = "7" * 64
VERSION = VersionRef(version=3, digest=DIGEST, engine_model="support@v3-777777777777")
CASE = Case.model_validate({"id": "1", "prompt": "Is it in stock?", "rule": {"max_words": 5}})


def asker(headers, **changes) -> Asker:
    document = {
        "system_fingerprint": DIGEST[:12],
        "choices": [{"message": {"role": "assistant", "content": "Yes, it is."}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 4},
    }

    def gateway(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=document | changes, headers=headers)

    return Asker(httpx2.AsyncClient(transport=httpx2.MockTransport(gateway), base_url="http://gateway"), tries=1)


async def test_an_answer_of_the_version_asked_counts():
    reply = await asker({"x-headrace-version": "3"}).ask("support", VERSION, CASE, 64)
    assert (reply.text, reply.tokens) == ("Yes, it is.", 4)


@pytest.mark.parametrize(
    ("headers", "changes"),
    [
        ({}, {}),
        ({"x-headrace-version": "2"}, {}),
        ({"x-headrace-version": "3", "x-headrace-fallback": "true"}, {}),
        ({"x-headrace-version": "3"}, {"system_fingerprint": "8" * 12}),
        ({"x-headrace-version": "3"}, {"system_fingerprint": None}),
    ],
)
async def test_an_answer_of_another_version_or_of_an_unnamed_adapter_does_not(headers, changes):
    with pytest.raises(NoAnswerError) as refused:
        await asker(headers, **changes).ask("support", VERSION, CASE, 64)
    assert refused.value.curable
