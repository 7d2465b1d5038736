"""Several processes that serve one port from one store, ``--workers`` (upstream: none, a Go process uses all cores).

Here belongs what starts, watches and replaces them.  The supervisor is the parent, which holds the listening socket, the data
directory and the embedded store's server and serves nothing; a worker is an ordinary server on that socket and that store.  Not
here: what several servers on one store need from each other (leases, elections, confirmed reads), wherever they run.
Start reading with ``supervisor.py`` and ``worker.py``.
"""
