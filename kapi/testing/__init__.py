"""The test kit, public (upstream: controller-runtime ``envtest``, ``cmd/kube-apiserver/app/testing``).

Here belong a real kapi in its own process (``process``), and an API server in memory (``memory_api``), to which tests send
requests of ``http``.  Not here: fakes that only kapi's own tests use (``tests``).
Start reading with ``process.py`` and ``memory_api.py``.

The names below are public.  They are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.lazy_names import lazy_names

if TYPE_CHECKING:  # what type checkers read
    from kapi.testing.client import MemoryTransport as MemoryTransport
    from kapi.testing.client import memory_client as memory_client
    from kapi.testing.cluster import Cluster as Cluster
    from kapi.testing.memory_api import MemoryAPI as MemoryAPI
    from kapi.testing.process import KapiProcess as KapiProcess

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "kapi.testing.client": "MemoryTransport memory_client",
        "kapi.testing.cluster": "Cluster",
        "kapi.testing.memory_api": "MemoryAPI",
        "kapi.testing.process": "KapiProcess",
    },
)
