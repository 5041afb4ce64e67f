"""Rows as the store hands them over."""

from datetime import UTC, datetime, timedelta

from headrace_console.core.facts import Facts, Scored, Tally

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def at(minutes):
    return NOW + timedelta(minutes=minutes)


def tally(version, n=40, mean=0.5, spread=0.2, failed=0):
    return Tally(version, n, mean, spread, failed, at(-1))


def route(epoch, champion, previous=None, candidates=(), minutes=0):
    return {
        "policy": "support",
        "epoch": epoch,
        "champion": champion,
        "previous": previous,
        "canary": None,
        "canary_share": 0.0,
        "candidates": list(candidates),
        "occurred_at": at(minutes),
    }


def version(number, minutes=0):
    return {
        "policy": "support",
        "version": number,
        "digest": f"d{number}",
        "parent_version": 0,
        "run_id": f"run-{number}",
        "occurred_at": at(minutes),
    }


def run(number, samples=32, minutes=0):
    return {
        "run_id": f"run-{number}",
        "digest": f"d{number}",
        "policy": "support",
        "parent_version": 0,
        "samples": samples,
        "recipe": "default",
        "occurred_at": at(minutes),
    }


def evaluation(number, verdict="promote", minutes=0):
    return {
        "evaluation_id": f"ev-{number}-{minutes}",
        "policy": "support",
        "version": number,
        "champion_version": 0,
        "verdict": verdict,
        "because": "it is better",
        "cases": 40,
        "candidate_score": 0.9,
        "champion_score": 0.1,
        "e_value": 900.0,
        "occurred_at": at(minutes),
    }


def replica(minutes=0, healthy=True, adapters=()):
    return {
        "replica": "local",
        "sequence": 1,
        "healthy": healthy,
        "base_model": "base",
        "engine_version": "0.32.0",
        "adapters": list(adapters),
        "occurred_at": at(minutes),
    }


def series(count, version=0, reward=1.0, start=-60):
    return tuple(Scored(at(start) + timedelta(seconds=n), reward, version, True) for n in range(count))


SPEC = {"base_model": "base", "trigger_events": 32}


def facts(**changed):
    nothing = {name: () for name in Facts.__dataclass_fields__}
    nothing |= {"policies": ("support",), "policy": "support", "spec": SPEC, "feedback": (0, None)}
    return Facts(**nothing | changed)
