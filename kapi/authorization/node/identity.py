"""Which node a user is (upstream: ``pkg/auth/nodeidentifier``)."""

from __future__ import annotations

from kapi.request.user import UserInfo

NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"


def node_identity(user: UserInfo) -> tuple[str, bool]:
    """(node name, is a node): the name has the prefix and the groups hold ``system:nodes``."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return "", False
    return user.name[len(NODE_PREFIX) :], True
