"""Two words decide what happens to work that failed. Anything else is a bug and is loud."""


class HeadraceError(Exception):
    """A failure that we expect and can put into one sentence."""


class Retryable(HeadraceError):
    """Later may work: the record stays, the consumer backs off, then pauses."""


class Rejected(HeadraceError):
    """Never will work: the record goes to the dead letters, a request gets a 4xx.

    `code` is for machines, `field` names what was wrong (a JSON path), the message is one sentence.
    """

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 422) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.status = status


class Fenced(HeadraceError):
    """Somebody else took over: our write changed nothing, and we must look again before going on."""
