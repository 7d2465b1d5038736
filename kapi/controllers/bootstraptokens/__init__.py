"""Removes bootstrap tokens whose time is over, and signs ``cluster-info`` with the others.

Upstream: ``pkg/controller/bootstrap``.
"""
