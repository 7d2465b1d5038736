"""Delays the import of modules that Twisted imports but a short-lived program does not use, until their first use.

A client command runs for a fifth of a second, and nearly all of it is imports.  Python's own ``importlib.util.LazyLoader`` does
not help with ``from asyncio import Future``, which loads the module at once.  Here a few names are placeholders, which load the
real objects when they are used.  Only the process of a command does this (``kapi.__main__``), not a program that has a reactor.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

#: by module, the names that are imported from it, and the submodules that define them; those whose parents import more come last
_MODULES: dict[str, dict[str, str]] = {
    "calendar": {},  # of OpenSSL.crypto
    "pickle": {},  # of twisted.python.reflect
    "tempfile": {},  # of kapi.client.replaced_file, for caches that are written
    "textwrap": {},  # of zope.interface
    "html": {"escape": ""},  # of twisted.python.compat
    "asyncio": {"AbstractEventLoop": "events", "Future": "futures", "iscoroutine": "coroutines"},  # of internet.defer
    "http.cookiejar": {},  # of python.compat; with it come http.client, urllib.request and email
    "twisted.internet.udp": {},
    "twisted.internet.unix": {},
    "twisted.internet.threads": {"deferToThreadPool": ""},  # of internet._resolver
}


class _Name:
    """A placeholder of a class or a function."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def _found(self) -> object:
        module = import_module(self._module)
        if isinstance(module, _Postponed):
            module.execute()
        return getattr(module, self._name)

    def __getattr__(self, name: str) -> object:
        return getattr(self._found(), name)

    def __call__(self, *arguments: object, **named: object) -> object:
        return self._found()(*arguments, **named)  # type: ignore[operator]

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._found())  # type: ignore[arg-type]


class _Postponed(ModuleType):
    def __getattr__(self, name: str) -> object:
        """Loads the module for an attribute that is not there yet.  Raises AttributeError."""
        module = self.__name__
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        parts = _MODULES[module]
        if name in parts:
            return _Name(f"{module}.{parts[name]}".rstrip("."), name)
        if any(parts.values()) and find_spec(f"{module}.{name}") is not None:
            return import_module(f"{module}.{name}")
        self.execute()
        return getattr(self, name)

    def execute(self) -> None:
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)


def postpone() -> None:
    """To be called before Twisted is imported."""
    for name in _MODULES:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            made = module_from_spec(spec)
            made.__class__ = _Postponed
            sys.modules[name] = made
