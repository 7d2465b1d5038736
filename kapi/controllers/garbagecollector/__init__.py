"""Deletes what has lost its owners, and lets owners go that wait for their dependents.

It stands for upstream's ``pkg/controller/garbagecollector``.  Here belongs what follows from ``metadata.ownerReferences`` and
the finalizers ``foregroundDeletion`` and ``orphan``; to set these finalizers is the registry's work.  Start reading at
``graph.py`` (who owns what) and ``reconcile.py`` (what follows from that); both are pure.
"""
