"""What is wrong with how kapi was started; shown on stderr, one line each, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence


class ConfigError(Exception):
    """One or more things an operator has to put right."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages: Sequence[str] = messages


def complain(error: Exception) -> None:
    """Writes it to stderr."""
    for message in str(error).splitlines():
        sys.stderr.write(f"kapi: {message}\n")
    sys.stderr.flush()


def read_file(path: str, flag: str) -> bytes:
    """The content of a file that a flag names.  Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"--{flag}: cannot read {path}: {error.strerror or error}") from None
