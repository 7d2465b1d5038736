"""Public names of a package that are loaded at their first use (PEP 562).

The server imports only the modules of the client library that it needs; users import names from the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.  ``modules``: the public names of each module, with spaces."""
    places = {name: module for module, names in modules.items() for name in names.split()}
    public = sorted(places)

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return get, lambda: public, public
