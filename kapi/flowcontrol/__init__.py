"""API priority and fairness (upstream: apiserver ``pkg/util/flowcontrol``; KEP-1040).

Here belong the matching of flow schemas, priority levels, queues and seats.  Not here: the filter
(``kapi.filters.priority_and_fairness``), validation of the two resources (``kapi.resources.flowcontrol``), and the thread's time,
which is shared by the same levels (``kapi.process``).
Start reading with ``controller.py`` and ``fair_queues.py``.
"""
