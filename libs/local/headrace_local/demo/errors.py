"""What ends a demo early: one sentence with the mend."""


class DemoError(RuntimeError):
    """The demo cannot go on; the message says why and what to do."""
