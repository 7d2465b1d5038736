"""Role-based access control (upstream: ``plugin/pkg/auth/authorizer/rbac``, ``pkg/registry/rbac``).

Here belong the authorizer, its index, the escalation check and the default policy.  Not here: validation of roles and
bindings (``kapi.resources.rbac``) and aggregation of ClusterRoles (``kapi.controllers.clusterroleaggregation``).
Start reading with ``authorizer.py`` and ``index.py``.
"""
