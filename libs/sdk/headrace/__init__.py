"""Headrace for apps: say what a user did with an answer, in one call that never fails and never waits.

from headrace import Headrace

headrace = Headrace()                       # HEADRACE_GATEWAY_URL and HEADRACE_API_KEY
answer = openai_client.chat.completions.create(model="support", messages=[...])
headrace.accepted(answer)                   # or .rejected, .corrected(answer, "…"), .comment(answer, "…")
"""

from headrace.aio import AsyncHeadrace
from headrace.buffer import Stats
from headrace.client import Headrace
from headrace.errors import FeedbackError

__all__ = ["AsyncHeadrace", "FeedbackError", "Headrace", "Stats"]
