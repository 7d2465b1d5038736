"""Parts of a server for tests (upstream: none): faults, a clock that moves, logical clusters, past reads, ``/kapi/settled``.

Here belong the endpoints and filters that a production server does not have.  Not here: what tests use as clients
(``kapi.testing``).  Start reading with ``clusters.py`` and ``fault_injection.py``.
"""
