"""From the socket to the filters: TLS, HTTP, the run of a request, start and stop (upstream: apiserver ``pkg/server``).

Here belong connections and their limits, health, the files of a first start (keys, kubeconfig), and ``GenericServer``.  Not here:
filters (``kapi.filters``) and endpoints (``kapi.endpoints``).
Start reading with ``site.py`` and ``generic.py``.
"""
