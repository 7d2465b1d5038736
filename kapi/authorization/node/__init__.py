"""The Node authorizer (upstream: ``plugin/pkg/auth/authorizer/node``).

Here belongs the graph from nodes to the objects that their pods need.  Not here: the checks of a kubelet's writes
(``kapi.admission.plugins.node_restriction``).
Start reading with ``authorizer.py`` and ``graph.py``.
"""
