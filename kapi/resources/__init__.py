"""The built-in resources: a strategy, defaults, validation and table for each (upstream: ``pkg/apis``, ``pkg/registry/<group>``).

Here belong one package a group and one module a resource, all pure; ``catalogue.py`` lists them, ``definition.py`` says what a
resource is.  Not here: what is the same for all of them (``kapi.registry``), the shapes of types (``kapi.schema``), and rules
that need other objects (``kapi.admission``).
Start reading with ``definition.py`` and ``apps/deployments.py``.
"""
