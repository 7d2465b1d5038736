"""What controllers are made of (upstream: client-go ``tools/cache``, ``util/workqueue``, ``tools/leaderelection``).

Here belong informers and reflectors, work queues, leader election, the recorder of events, and the interface through which
controllers read and write: in the process (``interface``) or over the network (``remote``).  Not here: requests, which
``kapi.client`` sends, and the controllers themselves.  Start reading with ``interface.py`` and ``workqueue.py``.

The names below are public.  They are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.lazy_names import lazy_names

if TYPE_CHECKING:
    from kapi.runtime.indexer import Indexer
    from kapi.runtime.informer import SharedInformer
    from kapi.runtime.leaderelection import LeaderElector
    from kapi.runtime.recorder import EventRecorder
    from kapi.runtime.reflector import Reflector
    from kapi.runtime.remote import RemoteClient
    from kapi.runtime.workqueue import WorkQueue

__all__ = [
    "EventRecorder",
    "Indexer",
    "LeaderElector",
    "Reflector",
    "RemoteClient",
    "SharedInformer",
    "WorkQueue",
]
_PLACES = {
    "Indexer": "kapi.runtime.indexer",
    "SharedInformer": "kapi.runtime.informer",
    "LeaderElector": "kapi.runtime.leaderelection",
    "EventRecorder": "kapi.runtime.recorder",
    "Reflector": "kapi.runtime.reflector",
    "RemoteClient": "kapi.runtime.remote",
    "WorkQueue": "kapi.runtime.workqueue",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
