"""Controllers in the process (upstream: controller-manager ``options/generic.go``)."""

from __future__ import annotations

from kapi.options.flags import FlagSet


class ControllerOptions(FlagSet):
    title = "Controllers"

    def add(self) -> None:
        self.strings("controllers", ("*",), "Controllers to run: '*' all, 'foo' that one, '-foo' not; empty: none.")

    def enabled(self, name: str) -> bool:
        """The controller manager's rule: a name wins over ``*``."""
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
