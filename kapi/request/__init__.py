"""The data of one request and of its answer (upstream: apiserver ``pkg/endpoints/request``).

Here belong the request line, RequestInfo, the user, the context that is passed from filter to filter, and the answer as a
value.  Not here: sockets (``kapi.serving``) and writing the answer (``kapi.endpoints.writer``).
Start reading with ``context.py`` and ``info.py``.
"""
