"""AlwaysAdmit and AlwaysDeny, which are deprecated upstream."""

from __future__ import annotations

from kapi.admission.interface import Attributes, Plugin, denied


class AlwaysAdmit(Plugin):
    """Refuses nothing."""


class AlwaysDeny(Plugin):
    """Refuses everything; for tests."""

    def admit(self, attributes: Attributes) -> None:
        raise denied(attributes, "admission control is denying all modifications")

    def validate(self, attributes: Attributes) -> None:
        self.admit(attributes)
