"""Encryption at rest (upstream: apiserver ``storage/value``, ``server/options/encryptionconfig``).

``configuration`` reads the file, and ``providers`` encrypt bytes.  ``transformer`` selects the provider of a key; it works
between the store and the watch cache.  ``kms`` is the provider whose keys are in a KMS ``plugin``.  Nothing here talks to the
store.
"""
