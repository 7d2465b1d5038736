"""Flags of the launchers of a server: --help, --version, --config-file, --testbed, --workers (upstream: ``cli/globalflag``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, integer, string, switch, value


class GlobalOptions(FlagSet):
    """Flags that launchers handle before the server parses the others; declared here for the help text."""

    title = "Global"

    help = switch(False, "Show this text.", short="h")
    version = value(
        string, "", "Print the version, or all about it with --version=raw, and end.", type="version[=true]"
    )

    def add(self) -> None:
        self.declare(
            "config-file",
            value(string, "", "File with flags, one or more a line; the command line wins.", group="Kapi"),
        )
        self.declare(
            "testbed",
            switch(
                False,
                "Add what only tests use, such as /kapi/settled; with --help: show the flags that this adds.",
                group="Kapi",
            ),
        )


class ProcessOptions(FlagSet):
    """The number of processes (upstream has no such flags: a Go process uses all cores)."""

    title = "Kapi"

    workers = value(
        integer,
        1,
        "How many processes serve the port; each uses one core. Limits such as --max-requests-inflight are each one's.",
    )

    def validate(self) -> list[str]:
        return [] if self.workers >= 1 else ["--workers must be at least 1"]
