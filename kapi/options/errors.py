"""Configuration errors, which are printed to stderr, one line each, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kapi.machinery.tree import Tree


class ConfigError(Exception):
    """One or more configuration errors that an operator has to correct."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages: Sequence[str] = messages


def complain(error: Exception) -> None:
    """Prints the error to stderr."""
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


def read_yaml(path: str, flag: str) -> Tree:
    """The document in a file that a flag names.  Raises ConfigError."""
    from kapi.codecs import yaml_reading  # imported only when it is used

    try:
        return yaml_reading.loads(read_file(path, flag))[0]
    except ValueError as error:
        raise ConfigError(f"--{flag}: not YAML: {error}") from None
