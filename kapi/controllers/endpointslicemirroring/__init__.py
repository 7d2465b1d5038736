"""Mirrors Endpoints that people write themselves into EndpointSlices.

Upstream: ``pkg/controller/endpointslicemirroring``.
"""
