"""Delays what other packages import or compile but a short-lived program does not use, until its first use.

A client command runs for a fifth of a second, and nearly all of it is imports.  Python's own ``importlib.util.LazyLoader`` does
not help with ``from asyncio import Future``, which loads the module at once.  Here a few names are placeholders, which load the
real objects when they are used.  Only the process of a command does this (``kapi.__main__``), not a program that has a reactor.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # its import takes longer than what is saved here
    from importlib.abc import Loader

#: by module, the names that are imported from it, and the submodules that define them; those whose parents import more come last
_MODULES: dict[str, dict[str, str]] = {
    "calendar": {},  # of OpenSSL.crypto
    "pickle": {},  # of twisted.python.reflect
    "tempfile": {},  # of kapi.client.replaced_file, for caches that are written
    "ctypes": {"WinError": ""},  # of twisted.python.win32
    "textwrap": {},  # of zope.interface
    "html": {"escape": ""},  # of twisted.python.compat
    "idna": {},  # of service_identity.hazmat
    "email.utils": {"parseaddr": ""},  # of x509.general_name
    "asyncio": {"AbstractEventLoop": "events", "Future": "futures", "iscoroutine": "coroutines"},  # of internet.defer
    "http": {},
    "http.cookiejar": {},  # of python.compat; with it come http.client, urllib.request and email
    "cryptography.hazmat.asn1": {},  # of service_identity.cryptography
    "cryptography.hazmat.primitives.asymmetric.types": dict.fromkeys(  # of x509 and kapi.machinery.der
        (
            *("CertificateIssuerPrivateKeyTypes", "CertificateIssuerPublicKeyTypes", "CertificatePublicKeyTypes"),
            *("PrivateKeyTypes", "PublicKeyTypes"),
        ),
        "",
    ),
    "cryptography.hazmat.primitives.serialization": {  # of internet._sslverify and kapi.machinery.der
        "load_der_private_key": "",
        "load_der_public_key": "",
    },
    "twisted.internet.stdio": {"PipeAddress": "", "StandardIO": ""},  # of internet.endpoints
    "twisted.internet.udp": {},
    "twisted.internet.unix": {},
    "twisted.internet.threads": {"deferToThread": "", "deferToThreadPool": ""},  # of internet.endpoints and _resolver
    "twisted.logger._json": dict.fromkeys(
        ("eventAsJSON", "eventFromJSON", "eventsFromJSONLogFile", "jsonFileLogObserver"), ""
    ),
    "twisted.logger._stdlib": dict.fromkeys(  # with it comes logging
        ("STDLibLogObserver", "StringifiableFromEvent", "fromStdlibLogLevelMapping"), ""
    ),
    "twisted.python.filepath": dict.fromkeys(  # of internet.endpoints and address
        ("FilePath", "_asFilesystemBytes", "_coerceToFilesystemEncoding"), ""
    ),
    "twisted.python.modules": {"getModule": ""},  # of twisted.plugin; with it comes zipfile
    "twisted.python.threadpool": {"ThreadPool": ""},  # of internet.base
    "twisted.protocols._sni": dict.fromkeys(  # of internet.endpoints
        ("SNIConnectionCreator", "TLSServerEndpoint", "autoReloadingDirectoryOfPEMs"), ""
    ),
}
#: modules whose regular expressions are compiled when they are used; those of names take longer than all others together
_PATTERNS = ("cryptography.x509.name", "platform")


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
        if name.startswith("_"):  # asked for by decorators and inspect
            raise AttributeError(name)
        return getattr(self._found(), name)

    def __getitem__(self, key: object) -> object:
        return self._found()[key]  # type: ignore[index]

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
        if f"{module}.{name}" in _MODULES or any(parts.values()) and find_spec(f"{module}.{name}") is not None:
            return import_module(f"{module}.{name}")
        self.execute()
        return getattr(self, name)

    def execute(self) -> None:
        self.__class__ = ModuleType  # type: ignore[assignment]
        cast("Loader", self.__loader__).exec_module(self)


class _Pattern:
    """A regular expression that is compiled when it is used."""

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> object:
        return getattr(re.compile(self._pattern, self._flags), name)


class _Later:
    """A loader that postpones the module that ``loader`` would load, or the patterns of it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        assert module.__spec__ is not None
        module.__spec__.loader = self._loader
        if module.__name__ in _MODULES:
            module.__class__ = _Postponed
            return
        compile_pattern = re.compile
        re.compile = _Pattern  # type: ignore[assignment]
        try:
            self._loader.exec_module(module)
        finally:
            re.compile = compile_pattern


class _Finder:
    """Finds the modules above, before the finders of Python do."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _MODULES and name not in _PATTERNS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)  # type: ignore[assignment]
        return spec


def postpone() -> None:
    """To be called before Twisted is imported."""
    sys.meta_path.insert(0, _Finder)
