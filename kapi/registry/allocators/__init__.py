"""Allocators: cluster IPs and node ports of Services, safe among several processes and across crashes."""

from __future__ import annotations

from kapi.registry.allocators.services import install

__all__ = ["install"]
