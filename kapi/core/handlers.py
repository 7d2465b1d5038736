"""The endpoints that are not plain objects, by the name that a catalogue row gives them."""

from __future__ import annotations

from kapi.endpoints.dispatch import Endpoint
from kapi.endpoints.scale import scale


def built_in_handlers() -> dict[str, Endpoint]:
    return {"scale": scale}
