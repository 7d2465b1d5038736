"""Mirrors Endpoints that no controller keeps into EndpointSlices.

Upstream: ``pkg/controller/endpointslicemirroring``.
"""
