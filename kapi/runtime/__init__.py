"""What controllers are made of (upstream: client-go ``tools/cache``, ``util/workqueue``, ``tools/leaderelection``).

Here belong informers and reflectors, work queues, leader election, the recorder of events, and the interface through which
controllers read and write: in the process (``interface``) or over the network (``remote``).  Not here: requests, which
``kapi.client`` sends, and the controllers themselves.  Start reading with ``interface.py`` and ``workqueue.py``.
"""
