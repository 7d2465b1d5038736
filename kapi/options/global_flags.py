"""The global flags --help, --version and --config-file (upstream: component-base ``cli/globalflag``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string


class GlobalOptions(FlagSet):
    """Flags that ``kapi.tap`` handles before it parses the others; declared here for the help text."""

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
