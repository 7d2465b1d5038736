"""kapi's modules, also where the packages of its extras are not installed: what needs one is imported only with a flag."""

from __future__ import annotations

import importlib
from types import ModuleType

_PACKAGES = ("opentelemetry", "grpc", "nacl")  # of the extras in pyproject.toml


def imported(name: str) -> ModuleType | None:
    """A module of kapi; None when it needs an extra that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        return None
