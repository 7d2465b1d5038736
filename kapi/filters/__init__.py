"""The filters that every request passes before its endpoint (upstream: apiserver ``pkg/server/filters``, ``endpoints/filters``).

Here belong one module for each filter, and the loop that runs them.  Not here: their order (``kapi.assembly.filters``), and
the authenticators, authorizers and queues that they call.
Start reading with ``chain.py`` and ``authentication.py``.
"""
