"""The `headrace` command. Every error is one sentence that says what to do; `--debug` shows where it came from."""
