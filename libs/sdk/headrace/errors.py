"""The one error, raised only where `strict=True` asks for it."""


class FeedbackError(Exception):
    """A piece of feedback could not be taken or delivered; the message is one sentence with the mend."""
