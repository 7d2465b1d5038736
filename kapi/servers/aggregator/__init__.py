"""The aggregation layer: group versions that other servers serve (upstream: ``k8s.io/kube-aggregator``).

Here belong APIServices: their registration, availability, discovery and OpenAPI documents, and the proxy to the servers
behind them.  Not here: what this process serves itself (the other packages of
``kapi.servers``) and the proxy subresources of pods, services and nodes (``kapi.endpoints.connect``).
Start reading with ``server.py`` and ``proxy.py``.
"""
