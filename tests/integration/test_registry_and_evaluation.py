"""Registry and evaluation together: a checkpoint becomes the champion through the gate, and nobody else says so."""

from evaluation_world import SUITE, EvaluationWorld
from registry_world import RegistryWorld, digest

from headrace_kit.migrate import upgrade


async def test_a_checkpoint_is_registered_judged_and_promoted_and_the_next_one_is_judged_against_it(database_url):
    await upgrade(database_url, "headrace_registry")
    await upgrade(database_url, "headrace_evaluation")
    registry, evaluation = RegistryWorld(database_url), EvaluationWorld(database_url)
    evaluation.broker, evaluation.clock = registry.broker, registry.clock
    await registry.start()
    await evaluation.start()
    try:
        await registry.apply()
        await evaluation.push(SUITE)
        await registry.say(registry.checkpoint(1))
        await registry.became(1, "registered")
        await registry.say(registry.observed(1))
        first = await registry.became(1, "champion")
        assert first["promoted"]["by"] == "gate" and first["reports"][0]["verdict"] == "promote"

        await registry.say(registry.checkpoint(2, parent_version=1, parent_digest=digest(1)), registry.observed(1))
        await registry.became(2, "registered")
        await registry.say(registry.observed(1, 2))
        second = await registry.became(2, "evaluated")
        [report] = second["reports"]
        assert (report["champion_version"], report["verdict"]) == (1, "hold")
        assert (await registry.route())["champion"]["version"] == 1 and (await registry.route())["load"] == []
        assert (await evaluation.told())["pending"] == []
    finally:
        await evaluation.stop()
        await registry.stop()
