"""Authentication: which user sends a request (upstream: apiserver ``pkg/authentication``, ``pkg/kubeapiserver/authenticator``).

Here belong the authenticators - client certificates, front proxy, bearer tokens of every kind, anonymous - and their union.
Not here: the filter that calls them and answers 401 (``kapi.filters.authentication``), impersonation (``kapi.filters``),
and the TokenReview and TokenRequest endpoints (``kapi.endpoints.reviews``).
Start reading with ``interface.py`` and ``build.py``.
"""
