"""Deletes bootstrap tokens that have expired, and signs ``cluster-info`` with the others.

Upstream: ``pkg/controller/bootstrap``.
"""
