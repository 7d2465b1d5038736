"""Encryption at rest: what is written to the store is not what memory holds (upstream: apiserver ``storage/value``,
``server/options/encryptionconfig``).

``configuration`` reads the file, ``providers`` encrypt bytes, ``transformer`` knows which provider a key has, and
stands between the store and the watch cache.  ``kms`` is the provider whose keys a ``plugin`` keeps.  Nothing here talks to the
store.
"""
