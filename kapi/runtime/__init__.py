"""The parts of controllers (upstream: client-go ``tools/cache``, ``util/workqueue``, ``tools/leaderelection``).

Here belong informers and reflectors, work queues, leader election, the recorder of events, and the interface through which
controllers read and write: in the process (``interface``) or over the network (``remote``).  Not here: requests, which
``kapi.client`` sends, and the controllers themselves.  Start reading with ``interface.py`` and ``workqueue.py``.

The names below are public.  They are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.lazy_names import lazy_names

if TYPE_CHECKING:  # what type checkers read
    from kapi.runtime.indexer import Indexer as Indexer
    from kapi.runtime.informer import SharedInformer as SharedInformer
    from kapi.runtime.leaderelection import LeaderElector as LeaderElector
    from kapi.runtime.recorder import EventRecorder as EventRecorder
    from kapi.runtime.reflector import Reflector as Reflector
    from kapi.runtime.remote import RemoteClient as RemoteClient
    from kapi.runtime.workqueue import WorkQueue as WorkQueue

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "kapi.runtime.indexer": "Indexer",
        "kapi.runtime.informer": "SharedInformer",
        "kapi.runtime.leaderelection": "LeaderElector",
        "kapi.runtime.recorder": "EventRecorder",
        "kapi.runtime.reflector": "Reflector",
        "kapi.runtime.remote": "RemoteClient",
        "kapi.runtime.workqueue": "WorkQueue",
    },
)
