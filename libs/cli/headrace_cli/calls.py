"""One HTTP call to a service, with every way in which it can fail turned into a sentence."""

import getpass
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from headrace_cli.errors import Problem
from headrace_cli.places import Places
from headrace_cli.screen import clean

TIMEOUT_S = 30.0
_MENDS = {
    "unknown_policy": "`headrace versions list` names the policies that there are, `headrace apply -f FILE` makes one",
    "unknown_version": "`headrace versions list {policy}` shows those that there are",
    "route_changed": "somebody else moved it meanwhile; look with `headrace versions list` and ask again",
    "no_gate_report": "wait for its report, or insist with --force --reason TEXT",
}


class Refused(Problem):
    """A service said no; `code` and `param` are its words for programs."""

    def __init__(self, sentence: str, code: str, param: str, message: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.param = param
        self.message = message


def call(
    places: Places,
    service: str,
    method: str,
    path: str,
    *,
    body: Any = None,
    query: Mapping[str, Any] | None = None,
    by: str | None = None,
) -> Any:
    """The JSON of a 2xx answer. Raises Refused, or another Problem where there was no answer."""
    url = places.url(service)
    headers = {"authorization": f"Bearer {places.bearer(service)}"}
    if by is not None:
        headers["x-headrace-by"] = quote(by, safe=" @._-")
    try:
        answer = httpx2.request(
            method, f"{url}{path}", json=body, params=dict(query or {}), headers=headers, timeout=TIMEOUT_S
        )
    except httpx2.TimeoutException:
        raise Problem(
            f"The {service} at {url} did not answer within {TIMEOUT_S:.0f} s: look into `headrace logs {service}`."
        ) from None
    except (httpx2.RequestError, httpx2.InvalidURL, UnicodeEncodeError) as error:
        raise Problem(
            f"The {service} at {url} cannot be reached ({type(error).__name__}): `headrace status` tells whether it "
            "runs, `headrace up` starts the stack."
        ) from None
    if answer.is_success:
        try:
            return answer.json()
        except ValueError:
            raise Problem(
                f"What answers at {url} is no {service} of Headrace: check HEADRACE_{service.upper()}_URL."
            ) from None
    raise _refusal(service, url, answer)


def _refusal(service: str, url: str, answer: httpx2.Response) -> Problem:
    try:
        error = answer.json()["error"]
        message, code, param = str(error["message"]), str(error.get("code") or ""), str(error.get("param") or "")
    except (ValueError, KeyError, TypeError):
        return Problem(f"The {service} at {url} answered {answer.status_code}: look into `headrace logs {service}`.")
    if answer.status_code in (401, 403):
        variable = "HEADRACE_API_KEY" if service == "gateway" else "HEADRACE_ADMIN_TOKEN"
        return Refused(f"The {service} does not accept {variable}: {sentence(message)}", code, param, message)
    steps = answer.request.url.path.split("/")  # /v1/policies/NAME/…
    mend = _MENDS.get(code, "").format(policy=clean(steps[3]) if len(steps) > 3 else "")
    said = sentence(message)
    if answer.status_code == 503:
        mend = mend or "it is starting or waits for its database; try again in a moment"
    return Refused(f"{said[:-1]}: {mend}." if mend else said, code, param, message)


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    said = clean(text).strip()
    said = said[:1].upper() + said[1:]
    return said if said.endswith((".", "!", "?")) else f"{said}."


def me() -> str:
    """Who does it, for the audit."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "headrace-cli"
