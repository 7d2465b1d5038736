"""The three servers of the chain: aggregator, core, apiextensions (upstream: cmd/kube-apiserver ``app/server.go``).

Here belongs what one of these servers serves that is no built-in resource.  Not here: the generic server (``kapi.serving``), and
the built-in resources (``kapi.resources``).
Start reading with ``chain.py`` and ``aggregator/server.py``.
"""
