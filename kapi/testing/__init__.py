"""The test kit, public (upstream: controller-runtime ``envtest``, ``cmd/kube-apiserver/app/testing``).

Here belong a real kapi in a process of its own (``process``), and an API server in memory (``memory_api``), to which tests send
requests of ``http``.  Not here: fakes that only kapi's own tests use (``tests``).
Start reading with ``process.py`` and ``memory_api.py``.

The names below are public.  They are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.lazy_names import lazy_names

if TYPE_CHECKING:
    from kapi.testing.client import MemoryTransport, memory_client
    from kapi.testing.cluster import Cluster
    from kapi.testing.memory_api import MemoryAPI
    from kapi.testing.process import KapiProcess

__all__ = [
    "Cluster",
    "KapiProcess",
    "MemoryAPI",
    "MemoryTransport",
    "memory_client",
]
_PLACES = {
    "MemoryTransport": "kapi.testing.client",
    "memory_client": "kapi.testing.client",
    "Cluster": "kapi.testing.cluster",
    "MemoryAPI": "kapi.testing.memory_api",
    "KapiProcess": "kapi.testing.process",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
