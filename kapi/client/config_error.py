"""The error of a client's configuration that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence


class ConfigError(ValueError):
    """A configuration that cannot be used.  ``file`` and ``field`` say which part; the text never quotes a credential."""

    def __init__(self, why: str, *, file: str = "", field: str = "") -> None:
        self.why, self.file, self.field = why, file, field
        super().__init__(": ".join(part for part in ("" if file in why else file, field, why) if part))


class InvalidConfig(ConfigError):
    """A configuration that is not complete, or contradicts itself (upstream: ``clientcmd.IsConfigurationInvalid``)."""


class NoConnection(ConfigError):
    """What client-go only finds when it connects: the server's address, or the answer of a credential plugin."""


class LoadErrors(ConfigError):
    """Several files that cannot be read."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(error.why for error in errors))


class ConfigErrors(LoadErrors, InvalidConfig):
    """Several problems of a configuration that can be read."""
