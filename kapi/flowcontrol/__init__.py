"""API priority and fairness (upstream: apiserver ``pkg/util/flowcontrol``; KEP-1040), and the thread's time shared by it.

Here belong flow schemas and levels at work, queues, seats, and whose bytes are read and whose requests run next
(``thread_scheduler``).  Not here: the filter (``kapi.filters.priority_and_fairness``) and validation of the two resources
(``kapi.resources.flowcontrol``).
Start reading with ``controller.py`` and ``fair_queues.py``.
"""
