"""The global flags --help, --version, --config-file and --testbed (upstream: component-base ``cli/globalflag``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string


class GlobalOptions(FlagSet):
    """Flags that launchers handle before it parses the others; declared here for the help text."""

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
        self.switch(
            "testbed",
            False,
            "Add what only tests use, such as /kapi/settled; with --help: show the flags that this adds.",
            group="Kapi",
        )
