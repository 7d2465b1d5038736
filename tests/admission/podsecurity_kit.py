"""Pods for the Pod Security Standards."""

from __future__ import annotations

from typing import Any

from kapi.machinery.tree import Object


def container(name: str = "c", **context: Any) -> Object:
    return {"name": name, "image": "i", "securityContext": context}
