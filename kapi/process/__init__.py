"""The one thread of the process and its memory (upstream: none, Go's runtime does it; ADR 14, 18 and 19).

Here belong whose work the thread does next (``turn``, ``shares``), long computations (``slices``, ``driver``), calls in the
future (``timers``), the collector and the allocator (``heap``, ``freeing``), and every change to Twisted's reactor (``reactor``).
Not here: seats and queues (``kapi.flowcontrol``), the checkpoints of pure functions (``kapi.machinery.checkpoint``), requests
(``kapi.serving``), and what watches the thread (``kapi.observability.stalls``).
Start reading with ``turn.py`` and ``slices.py``.
"""
