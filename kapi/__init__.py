"""A Kubernetes API server in Python, on Twisted, over a Redis or Valkey stream (upstream: ``cmd/kube-apiserver``).

Programs may import these names; everything else is internal, and may change in any release:

* ``kapi.resource``: a server inside of another Twisted application; ``kapi.embedding`` has what such a program adds.
* ``kapi.client``: the client library: configuration, requests, objects of any kind, errors.
* ``kapi.runtime``: what controllers are made of: informers, work queues, leader election, events.
* ``kapi.testing``: servers for tests, in a process of their own or in memory.
* ``kapi.__version__``: the version of kapi, not of Kubernetes.

``docs/api.rst`` describes them, and the further modules whose functions they take or return.

Each package below stands for one upstream package and says so in its own docstring; docs/architecture.rst lists them from
the top layer down.  Here lie only the modules that know all of them: ``app`` (start, run, stop), ``tap`` (twistd, tac
file, console script) and ``foundation`` (data directory and store, opened while the rest is imported).
Start reading with ``app.py`` and ``assembly/server.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi import client, embedding, runtime, testing
    from kapi.embedding import resource

__all__ = ["__version__", "client", "embedding", "resource", "runtime", "testing"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Loads a public name when it is asked for: importing kapi alone reads nothing else."""
    from importlib import import_module

    if name == "resource":
        return import_module("kapi.embedding").resource
    if name in __all__:
        return import_module(f"kapi.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
