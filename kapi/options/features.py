"""Feature flags (upstream: apiserver ``server/options/feature.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet, string


class FeatureOptions(FlagSet):
    title = "Features"

    def add(self) -> None:
        self.switch("enable-priority-and-fairness", True, "Fair queues instead of the in-flight limits alone.")
        self.switch("enable-fault-injection", False, "Serve /kapi/faults: faults on command, for tests.", group="Kapi")
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
            "Unix socket on which to serve /debug/pprof/ without credentials.",
            refused="ask /debug/pprof/ with credentials",
        )
