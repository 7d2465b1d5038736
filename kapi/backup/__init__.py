"""``kapi backup`` and ``kapi restore`` (upstream: ``etcdctl snapshot save``, ``etcdutl snapshot restore``).

Here belong the two commands and the format of their file.  Not here: reading and filling a store, which is in ``dump.py`` and
``restore.py`` of ``kapi.store``.  docs/adr/0037 explains the
format.  Start reading with ``command.py`` and ``archive.py``.
"""
