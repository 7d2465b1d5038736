"""Flags of the built-in controllers (upstream: controller-manager ``options/generic.go``, component-base ``config/options``)."""

from __future__ import annotations

from kapi.controllers.leaderelection import Timing
from kapi.options.flags import FlagSet, duration, string, strings, switch, value


class ControllerOptions(FlagSet):
    title = "Controllers"

    controllers = strings(("*",), "Controllers to run: '*' all, 'foo' that one, '-foo' not; empty: none.")
    leader_elect = switch(True, "Of several servers on one external store, one runs the controllers.")
    leader_elect_lease_duration = value(duration, 15.0, "How long a leader that is silent keeps its lease.")
    leader_elect_renew_deadline = value(duration, 10.0, "A leader that cannot renew for so long gives up.")
    leader_elect_retry_period = value(duration, 2.0, "How long candidates wait between two attempts.")
    leader_elect_resource_name = value(string, "kapi-controller-manager", "Name of the Lease.")
    leader_elect_resource_namespace = value(string, "kube-system", "Namespace of the Lease.")

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
