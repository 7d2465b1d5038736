"""Parts of a server for tests (upstream: none): faults, a clock that moves, logical clusters, past reads, ``/kapi/settled``.

Here belong the endpoints and filters that a production server does not have.  Not here: the clients of tests
(``kapi.testing``).  Start reading with ``clusters.py`` and ``fault_injection.py``.
"""
