"""AlwaysDeny: refuses everything (deprecated upstream; for tests)."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes, Plugin, denied


class AlwaysDeny(Plugin):
    def admit(self, attributes: Attributes) -> None:
        raise denied(attributes, "admission control is denying all modifications")

    def validate(self, attributes: Attributes) -> None:
        self.admit(attributes)


def make(initializer: Initializer, configuration: object) -> Plugin:
    return AlwaysDeny()
