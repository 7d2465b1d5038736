"""The verbs of the API: handlers turn a parsed request into a response (upstream: apiserver ``pkg/endpoints/handlers``).

Here belong query options, bodies, encoding of responses, the verbs, discovery, OpenAPI and special subresources.
Not here: the processing of a decoded object (``kapi.registry``), and the filters before the handler (``kapi.filters``).
Start reading with ``dispatch.py`` and ``objects.py``.
"""
