"""The built-in resources: a strategy, defaults, validation and table for each (upstream: ``pkg/apis``, ``pkg/registry/<group>``).

Here belong a package for each group and a module for each resource; all are pure functions of trees, without I/O.
``catalogue.py`` lists the resources, ``definition.py`` defines their parts.  Not here: common code of all resources
(``kapi.registry``), the schemas of types (``kapi.schema``), and rules that need other objects (``kapi.admission``).
Start reading with ``definition.py`` and ``apps/deployments.py``.
"""
