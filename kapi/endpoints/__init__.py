"""The verbs of the API: a parsed request becomes an answer (upstream: apiserver ``pkg/endpoints/handlers``).

Here belong options, bodies, encoding of answers, one module a verb, discovery, OpenAPI and special subresources.  Not here:
what happens to an object once it is decoded (``kapi.registry``), and what comes before the endpoint (``kapi.filters``).
Start reading with ``dispatch.py`` and ``update.py``.
"""
