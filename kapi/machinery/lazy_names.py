"""Public names of a package that are loaded when they are asked for (PEP 562).

The server imports single modules of the client library and starts with no more than these; a user imports names from the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``.  ``places`` names the module of each public name."""

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return get, lambda: sorted(places)
