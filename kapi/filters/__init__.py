"""The filters that every request passes before its endpoint (upstream: apiserver ``pkg/server/filters``, ``endpoints/filters``).

Here belongs one module a filter, and the loop that runs them.  Not here: their order (``kapi.assembly.filters``) and what
they ask - authenticators, authorizers, queues have packages of their own.
Start reading with ``chain.py`` and ``authentication.py``.
"""
