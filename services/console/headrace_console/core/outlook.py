"""The one sentence at the top of the page: where the loop stands, and what to do where it waits for somebody."""

from dataclasses import dataclass
from typing import Literal

from headrace_console.core.facts import Facts
from headrace_console.core.words import name_of, plural


@dataclass(frozen=True)
class Outlook:
    """`tone` colours the mark beside the sentence; `command` is what to type next, empty where nothing is needed."""

    tone: Literal["runs", "waits", "broken"]
    sentence: str
    detail: str
    command: str = ""


def outlook(facts: Facts, fresh: int, engine_ready: bool) -> Outlook:
    """`fresh`: answers to learn from since the newest run; `engine_ready`: some replica answers."""
    if facts.policy is None:
        return Outlook(
            "waits",
            "No policy yet",
            "A policy says which model answers and what a good answer is worth. Apply one to begin.",
            "headrace apply -f policy.yaml",
        )
    if not engine_ready:
        return Outlook(
            "broken" if facts.replicas else "waits",
            "No engine answers",
            "No replica has reported itself ready within the last minute. A first start takes a minute or two.",
            "headrace status",
        )
    answers = sum(t.n for t in facts.answers)
    if not answers:
        return Outlook(
            "waits",
            f"{facts.policy} is ready for its first question",
            "Point an OpenAI client at the gateway and ask.",
            f'openai.chat.completions.create(model="{facts.policy}", messages=[…])',
        )
    if not facts.feedback[0]:
        return Outlook(
            "waits",
            f"{plural(answers, 'answer')}, and nobody has said what they were worth",
            "Every answer's id takes feedback. One call a judgement closes the loop.",
            "headrace feedback ID accepted true",
        )
    return Outlook("runs", _who_answers(facts), _what_next(facts, fresh))


def _who_answers(facts: Facts) -> str:
    champion = facts.routes[0]["champion"] if facts.routes else 0
    who = "The base model answers" if champion == 0 else f"{name_of(champion)} answers"
    canary = facts.routes[0]["canary"] if facts.routes else None
    if canary is not None:
        who += f", and {name_of(canary)} {facts.routes[0]['canary_share']:.0%} of the time"
    return who


def _what_next(facts: Facts, fresh: int) -> str:
    candidates = facts.routes[0]["candidates"] if facts.routes else []
    if candidates:
        judged = {row["version"]: row["verdict"] for row in facts.evaluations}
        newest = max(candidates)
        if newest not in judged:
            return f"{name_of(newest)} is loaded and goes through the gate now."
        return f"{name_of(newest)} went through the gate: {judged[newest]}."
    if facts.spec is None:
        return ""
    need = facts.spec["trigger_events"]
    if fresh >= need:
        return f"{plural(fresh, 'scored answer')} wait to be learnt from; the next run starts or is on its way."
    return f"{plural(need - fresh, 'more scored answer')} until the next run ({fresh} of {need})."
