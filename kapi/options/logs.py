"""Log flags (upstream: component-base ``logs``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, integer


class LogOptions(FlagSet):
    title = "Logs"

    def add(self) -> None:
        self.value("v", integer, 0, "Number for the log level verbosity: 0 warnings, 2 info, 4 debug.", short="v")

    def validate(self) -> list[str]:
        return [] if self.v >= 0 else ["-v must not be negative"]
