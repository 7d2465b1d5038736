"""Types, and everything that walks a tree by its type (upstream: ``k8s.io/api``, structured-merge-diff, kube-openapi).

Here belong the derived types of Kubernetes 1.36, decoding, protobuf, patches, server-side apply (``apply``, managed fields)
and structural schemas (``structural``).  Not here: formats without types (``kapi.codecs``), expressions (``kapi.cel``), and
what a strategy says of a type (``kapi.resources``).
Start reading with ``types.py`` and ``decode.py``.
"""
