"""How many processes serve (upstream has no such flags: a Go process uses all cores)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, integer


class ProcessOptions(FlagSet):
    title = "Kapi"

    workers: int

    def add(self) -> None:
        self.value(
            "workers",
            integer,
            1,
            "How many processes serve the port; each uses one core. Limits such as --max-requests-inflight are each one's.",
        )

    def validate(self) -> list[str]:
        return [] if self.workers >= 1 else ["--workers must be at least 1"]
