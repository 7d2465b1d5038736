"""The one thread of the process and its memory (upstream: none, Go's runtime does it; ADR 14, 18 and 19).

Here belong the order of the thread's work (``turn``, ``shares``), long computations (``slices``, ``driver``), delayed calls
(``timers``), the collector and the allocator (``heap``, ``freeing``), and every change to Twisted's reactor (``reactor``).
Not here: seats and queues (``kapi.flowcontrol``), the checkpoints of pure functions (``kapi.machinery.checkpoint``), requests
(``kapi.serving``), and the monitor of the thread (``kapi.observability.stalls``).
Start reading with ``turn.py`` and ``slices.py``.
"""
