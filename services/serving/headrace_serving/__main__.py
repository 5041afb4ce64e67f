"""`python -m headrace_serving gateway` and `python -m headrace_serving agent`."""

import sys

import uvloop
from pydantic import ValidationError

from headrace_kit import logging
from headrace_serving.settings import AgentSettings, GatewaySettings, ServingPlatform

_USAGE = "say which: python -m headrace_serving gateway | agent\n"


def main(arguments: list[str]) -> int:
    if arguments not in (["gateway"], ["agent"]):
        sys.stderr.write(_USAGE)
        return 2
    part = arguments[0]
    try:
        platform = ServingPlatform.read()
        gateway = GatewaySettings() if part == "gateway" else None
        agent = AgentSettings() if part == "agent" else None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        sys.stderr.write(f"{part}: the setting {error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}\n")
        return 2
    logging.configure(part, platform.process.log_level, platform.process.log_format)

    async def run() -> None:
        from headrace_serving.app import build_agent, build_gateway

        if gateway is not None:
            await build_gateway(gateway, platform).serve(gateway)
        elif agent is not None:
            await build_agent(agent, platform).serve(agent)

    uvloop.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
