"""A user as the review kinds show it."""

from __future__ import annotations

from typing import Any

from kapi.request.user import UserInfo


def user_tree(user: UserInfo) -> dict[str, Any]:
    """``username``, ``uid``, ``groups``, ``extra``; empty ones left out."""
    tree: dict[str, Any] = {}
    if user.name:
        tree["username"] = user.name
    if user.uid:
        tree["uid"] = user.uid
    if user.groups:
        tree["groups"] = list(user.groups)
    if user.extra:
        tree["extra"] = {key: list(user.extra[key]) for key in sorted(user.extra)}
    return tree
