"""What ``describe`` prints of each kind (upstream: kubectl ``pkg/describe``).

A kind is a sequence of parts (``lines.py``) and what is read with the object: its pods, endpoints, quotas.  Kinds without
a describer are printed field by field.  Start reading with ``kinds.py``.
"""
