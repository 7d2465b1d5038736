"""A Kubernetes API server in Python, on Twisted, over a Redis or Valkey stream (upstream: ``cmd/kube-apiserver``).

Each package below stands for one upstream package and says so in its own docstring; docs/architecture.rst lists them from
the top layer down.  Here lie only the modules that know all of them: ``app`` (start, run, stop), ``tap`` (twistd, tac
file, console script), ``foundation`` (data directory and store, opened while the rest is imported) and ``clock``.
Start reading with ``app.py`` and ``assembly/server.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.embedding import resource

__all__ = ["resource"]


def __getattr__(name: str) -> object:
    """``kapi.resource`` is looked up when it is asked for: importing kapi alone reads nothing else."""
    if name == "resource":
        from kapi.embedding import resource

        return resource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
