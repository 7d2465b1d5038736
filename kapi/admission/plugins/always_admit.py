"""AlwaysAdmit: refuses nothing (deprecated upstream, without effect)."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Plugin


class AlwaysAdmit(Plugin):
    pass


def make(initializer: Initializer, configuration: object) -> Plugin:
    return AlwaysAdmit()
