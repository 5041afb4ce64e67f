"""Tells the registry of an API key that its users know already: ``python -m headrace_local.known_key``.

In containers the first key comes from the environment, because evaluation needs it before anybody could ask for one.
Running it again changes nothing.
"""

import sys

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from headrace_local.first_key import register


class KnownKeySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, use_attribute_docstrings=True)

    registry_url: str
    """Where the registry is."""
    admin_token: SecretStr
    """Bearer token of the services' internal HTTP."""
    api_key: SecretStr
    """`hr_`, eight of a-z0-9, `_`, and at least 20 letters, digits, - or _"""


def main() -> int:
    try:
        settings = KnownKeySettings()
    except ValidationError as error:
        names = ", ".join(f"HEADRACE_{str(e['loc'][0]).upper()}" for e in error.errors())
        print(f"Set {names}.", file=sys.stderr)
        return 2
    try:
        status = register(
            settings.registry_url, settings.admin_token.get_secret_value(), settings.api_key.get_secret_value()
        )
    except OSError as error:
        print(f"the registry did not take the API key: {error}", file=sys.stderr)
        return 1
    if status == 409:
        print("the API key was revoked and stays so: put another into HEADRACE_API_KEY", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
