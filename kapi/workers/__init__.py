"""Several processes that serve one port from one store, ``--workers`` (upstream: none, a Go process uses all cores).

Here belongs the code that starts, supervises and replaces worker processes.  The supervisor is the parent: it has the listening
socket, the data directory and the embedded store's server, and serves nothing.  A worker is an ordinary server on this socket and
this store.  Not here: coordination of several servers on one store (leases, elections, confirmed reads).
Start reading with ``supervisor.py`` and ``worker.py``.
"""
