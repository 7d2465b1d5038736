"""CustomResourceDefinitions and the resources they define (upstream: ``k8s.io/apiextensions-apiserver``).

Here belong names and conditions of definitions, the catalogue rows made from them, conversion webhooks and printer
columns.  Not here: structural schemas and their rules (``kapi.schema.structural``), and validation of the definition
object itself (``kapi.resources.apiextensions``).
Start reading with ``serving.py`` and ``rows.py``.
"""
