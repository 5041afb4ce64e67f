"""The loop as one picture, in Mermaid, drawn from topics.py. What is not a topic (HTTP) is drawn beside it."""

from headrace_schemas.topics import TOPICS

_PARTS = (
    ("serving", "serving<br/><small>gateway and agents</small>"),
    ("feedback", "feedback"),
    ("reward", "reward"),
    ("training", "training"),
    ("registry", "registry"),
    ("evaluation", "evaluation"),
)
_HTTP = (
    'app(["your app"]) -. "OpenAI API" .-> serving',
    'app -. "feedback" .-> serving',
    'serving <-. "answers, tokens, logprobs" .-> vllm[["vLLM"]]',
    'serving -. "feedback" .-> feedback',
    'evaluation -. "private suite" .-> serving',
)
_WATCHER = "console"


def edges() -> dict[tuple[str, str], list[str]]:
    """(producer, consumer) → names of the events between them; what a service tells itself is left out."""
    found: dict[tuple[str, str], list[str]] = {}
    for topic in TOPICS:
        for consumer in topic.consumers:
            if consumer not in (topic.producer, _WATCHER):
                found.setdefault((topic.producer, consumer), []).append(topic.event.type)
    return found


def picture() -> str:
    """A Mermaid flowchart: boxes are services, solid arrows are Kafka topics, dotted ones are HTTP."""
    watched = sum(_WATCHER in topic.consumers for topic in TOPICS)
    lines = ["flowchart LR"]
    lines += [f'    {name}["{label}"]' for name, label in _PARTS]
    lines += [f"    {edge}" for edge in _HTTP]
    lines += [f'    {a} == "{"<br/>".join(names)}" ==> {b}' for (a, b), names in edges().items()]
    lines += [
        f'    topics[("{watched} of {len(TOPICS)} topics")] ==> console["console"]',
        "    classDef service fill:#1f6feb22,stroke:#1f6feb",
        "    classDef outside fill:#8b949e22,stroke:#8b949e",
        f"    class {','.join(name for name, _ in _PARTS)},{_WATCHER} service",
        "    class app,vllm,topics outside",
    ]
    return "\n".join(lines) + "\n"


def table() -> str:
    """The topics as a Markdown table."""
    rows = ["| topic | key | partitions | kept | from | read by |", "| --- | --- | --- | --- | --- | --- |"]
    for topic in TOPICS:
        kept = "newest of each key" if topic.compacted else f"{topic.retention_s // 86_400} days"
        rows.append(
            f"| `{topic.name()}` | `{topic.keyed_by}` | {topic.partitions} | {kept} | {topic.producer} "
            f"| {', '.join(topic.consumers)} |"
        )
    return "\n".join(rows) + "\n"
