"""Deletes objects without owners, and finishes the deletion of owners that wait for their dependents.

Upstream: ``pkg/controller/garbagecollector``.  Here belongs what follows from ``metadata.ownerReferences`` and
the finalizers ``foregroundDeletion`` and ``orphan``; to set these finalizers is the registry's work.  Start reading with
``graph.py`` (who owns what) and ``reconcile.py`` (the decisions); both are pure.
"""
