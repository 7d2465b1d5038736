"""Deletes objects without owners, and finishes the deletion of owners that wait for their dependents.

Upstream: ``pkg/controller/garbagecollector``.  Here belong the consequences of ``metadata.ownerReferences`` and
the finalizers ``foregroundDeletion`` and ``orphan``.  Not here: the setting of these finalizers (``kapi.registry``).  Start
reading with ``graph.py`` (owners and dependents) and ``reconcile.py`` (the decisions); both are pure.
"""
