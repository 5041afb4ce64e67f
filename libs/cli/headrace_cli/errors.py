"""What a command may end with besides success."""


class Problem(Exception):
    """One sentence, the mend included. `status` 1: it did not work; 2: it was asked for wrongly."""

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
