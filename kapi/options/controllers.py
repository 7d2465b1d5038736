"""Flags of the built-in controllers (upstream: controller-manager ``options/generic.go``, component-base ``config/options``)."""

from __future__ import annotations

from kapi.controllers.leaderelection import Timing
from kapi.options.flags import FlagSet, duration, string


class ControllerOptions(FlagSet):
    title = "Controllers"

    controllers: list[str]
    leader_elect: bool
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_retry_period: float
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str

    def add(self) -> None:
        self.strings("controllers", ("*",), "Controllers to run: '*' all, 'foo' that one, '-foo' not; empty: none.")
        self.switch("leader-elect", True, "Of several servers on one external store, one runs the controllers.")
        self.value("leader-elect-lease-duration", duration, 15.0, "How long a leader that is silent keeps its lease.")
        self.value("leader-elect-renew-deadline", duration, 10.0, "A leader that cannot renew for so long gives up.")
        self.value("leader-elect-retry-period", duration, 2.0, "How long candidates wait between two attempts.")
        self.value("leader-elect-resource-name", string, "kapi-controller-manager", "Name of the Lease.")
        self.value("leader-elect-resource-namespace", string, "kube-system", "Namespace of the Lease.")

    def complete(self) -> None:
        self.election = Timing(
            self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period
        )

    def validate(self) -> list[str]:
        return self.election.problems() if self.leader_elect else []

    def enabled(self, name: str) -> bool:
        """Whether a controller runs, by the controller manager's rule: a name wins over ``*``."""
        if name in self.controllers:
            return True
        if f"-{name}" in self.controllers:
            return False
        return "*" in self.controllers

    def unknown(self, known: frozenset[str]) -> list[str]:
        """Errors for names that no controller has."""
        asked = [name.removeprefix("-") for name in self.controllers if name != "*"]
        return [
            f'--controllers: "{name}" is not in the list of known controllers' for name in asked if name not in known
        ]
