"""The three servers of the chain: aggregator, core, apiextensions (upstream: cmd/kube-apiserver ``app/server.go``).

Here belongs everything that one of these servers serves, except built-in resources (``kapi.resources``).  Not here: the generic
server (``kapi.serving``).
Start reading with ``chain.py`` and ``aggregator/server.py``.
"""
