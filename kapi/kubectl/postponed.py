"""Modules that Twisted imports and that a short-lived program does not use: each is executed when something of it is asked for.

A client command runs for a fifth of a second, and nearly all of it is imports.  Python's own ``importlib.util.LazyLoader`` is no
help for ``from asyncio import Future``, which asks at once; here a few names are taken from a submodule, without the package.
Only the process of a command does this (``kapi.__main__``): in a program that has a reactor already nothing is changed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

#: by module, the names that Twisted imports from it, and the submodules that define them
_MODULES: dict[str, dict[str, str]] = {
    "asyncio": {"AbstractEventLoop": "events", "Future": "futures", "iscoroutine": "coroutines"},  # of internet.defer
    "http.cookiejar": {},  # of python.compat; with it come http.client, urllib.request and email
}


class _Postponed(ModuleType):
    def __getattr__(self, name: str) -> object:
        """Called for what is not there yet.  Raises AttributeError."""
        module = self.__name__
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if name in (parts := _MODULES[module]):
            return getattr(import_module(f"{module}.{parts[name]}"), name)
        if parts and find_spec(f"{module}.{name}") is not None:
            return import_module(f"{module}.{name}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def postpone() -> None:
    """To be called before Twisted is imported."""
    for name in _MODULES:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            made = module_from_spec(spec)
            made.__class__ = _Postponed
            sys.modules[name] = made
