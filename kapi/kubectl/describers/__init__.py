"""The output of ``describe`` for each kind (upstream: kubectl ``pkg/describe``).

A describer is a sequence of parts (``lines.py``), and the related objects to read: pods, endpoints, quotas.  Kinds without
a describer are printed field by field.  Start reading with ``kinds.py``.
"""
