"""Feature flags (upstream: apiserver ``server/options/feature.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet


class FeatureOptions(FlagSet):
    title = "Features"

    def add(self) -> None:
        self.switch("enable-priority-and-fairness", True, "Fair queues instead of the in-flight limits alone.")
