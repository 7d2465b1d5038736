"""The client commands, such as ``kapi get`` (upstream: ``k8s.io/kubectl``, ``k8s.io/cli-runtime``).

Here belong the commands and the parts they share, under upstream's names: a Builder turns arguments into a Visitor of Infos, a
Result gives these to a printer.  They use the client library and nothing of the server.  A command imports only what it needs,
since it runs for a fifth of a second.  Not here: requests, discovery and configuration (``kapi.client``).
Programs and tests use ``Kubectl``.  Start reading with ``main.py`` and ``get.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.kubectl.in_process import Kubectl, KubectlError

__all__ = ["Kubectl", "KubectlError"]


def __getattr__(name: str) -> object:
    """Loads public names at their first use, since the commands do not need them."""
    if name in __all__:
        from kapi.kubectl import in_process

        found: object = getattr(in_process, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
