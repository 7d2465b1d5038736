"""Structural schemas of custom resources: pruning, defaulting, validation, rules (upstream: apiextensions-apiserver
``apiserver/schema``, KEP-1111, KEP-2876).

A schema is kept as the JSON of ``openAPIV3Schema``; every module here is a walk over such a tree.
"""
