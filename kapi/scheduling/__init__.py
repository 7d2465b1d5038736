"""Whose work the one thread does next (upstream: none, Go's scheduler does it; ADR 18 and 19).

Here belong the parts that docs/explanation/time.rst shows in the order in which a request meets them: the thread's time by
shares (``turn``, ``shares``), long computations in slices, answers that wait and their deadlines, and answers that
leave together.  Not here: seats and queues (``kapi.flowcontrol``), the checkpoints of pure functions
(``kapi.machinery.checkpoint``), and what watches the thread (``kapi.observability.stalls``).
Start reading with ``turn.py`` and ``deferred_answer.py``.
"""
