"""The server behind the socket: listening, TLS, HTTP/1.1 and HTTP/2, the life of a request (upstream: apiserver ``pkg/server``).

Here belong connections and their limits, the runner of one request, health, lifecycle, the files of a first start
(keys, kubeconfig), and ``GenericServer``.  Not here: filters (``kapi.filters``) and endpoints (``kapi.endpoints``).
Start reading with ``runner.py`` and ``generic.py``.
"""
