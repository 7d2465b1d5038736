"""Authorization: whether a user may do something (upstream: apiserver ``pkg/authorization``, ``pkg/kubeapiserver/authorizer``).

Here belong the authorizers - RBAC, Node, webhook, ABAC, the fixed ones - and their union.  Not here: the filter that calls
them (``kapi.filters.authorization``) and the access reviews (``kapi.endpoints.reviews``).
Start reading with ``interface.py`` and ``rbac/authorizer.py``.
"""
