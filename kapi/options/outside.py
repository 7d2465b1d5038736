"""Flags that are answered or replaced before the others are read."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string


class GlobalOptions(FlagSet):
    """Answered or replaced before the others are read (see ``kapi.tap``)."""

    title = "Global"

    help: bool
    version: str

    def add(self) -> None:
        self.switch("help", False, "Show this text.", short="h")
        self.value(
            "version",
            string,
            "",
            "Print the version, or all about it with --version=raw, and end.",
            type="version[=true]",
        )
        self.value(
            "config-file", string, "", "File with flags, one or more a line; the command line wins.", group="Kapi"
        )
