"""Feature flags (upstream: apiserver ``server/options/feature.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string, switch, value
from kapi.options.global_flags import ProcessOptions


class FeatureOptions(FlagSet):
    title = "Features"

    enable_priority_and_fairness = switch(True, "Fair queues instead of the in-flight limits alone.")
    enable_console = switch(False, "Serve /kapi/console: a page to look at, for browsers.", group="Kapi")
    profiling = switch(True, "Serve /debug/pprof/ to who may read it.")
    debug_socket_path = value(
        string, "", "Unix socket on which to serve /debug/pprof/ without credentials, to its owner alone."
    )

    def __init__(self, processes: ProcessOptions) -> None:
        super().__init__()
        self._processes = processes

    def add(self) -> None:
        self.declare(
            "contention-profiling",
            switch(False, "Profile what waits for locks.", inert="one thread does the work, and waits for no lock"),
        )

    def validate(self) -> list[str]:
        if self.debug_socket_path and self._processes.workers > 1:
            return ["--debug-socket-path: a profile is of one process; --workers must be 1"]
        return []
