"""Feature flags (upstream: apiserver ``server/options/feature.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string
from kapi.options.processes import ProcessOptions


class FeatureOptions(FlagSet):
    title = "Features"

    enable_priority_and_fairness: bool
    enable_console: bool
    profiling: bool
    debug_socket_path: str

    def __init__(self, processes: ProcessOptions) -> None:
        super().__init__()
        self._processes = processes

    def add(self) -> None:
        self.switch("enable-priority-and-fairness", True, "Fair queues instead of the in-flight limits alone.")
        self.switch("enable-console", False, "Serve /kapi/console: a page to look at, for browsers.", group="Kapi")
        self.switch("profiling", True, "Serve /debug/pprof/ to who may read it.")
        self.switch(
            "contention-profiling",
            False,
            "Profile what waits for locks.",
            inert="one thread does the work, and waits for no lock",
        )
        self.value(
            "debug-socket-path",
            string,
            "",
            "Unix socket on which to serve /debug/pprof/ without credentials, to its owner alone.",
        )

    def validate(self) -> list[str]:
        if self.debug_socket_path and self._processes.workers > 1:
            return ["--debug-socket-path: a profile is of one process; --workers must be 1"]
        return []
