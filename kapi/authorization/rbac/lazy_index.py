"""The RBAC index of a logical cluster, built at the first request of a user who is not in system:masters.

Most test clusters are used only by their administrators, and the default roles are most of the memory of an empty cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.authorization.rbac.index import GROUP, Grant, PolicyIndex
from kapi.authorization.rbac.role_rules import RoleRules
from kapi.request.user import UserInfo
from kapi.runtime.interface import Client


class LazyPolicyIndex(PolicyIndex):
    """Lists all roles and bindings through ``client`` when it is first used, and watches them from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def role_rules(self, kind: str, name: str, namespace: str) -> RoleRules:
        self._read()
        return super().role_rules(kind, name, namespace)

    def grants_for(self, user: UserInfo, namespace: str) -> Iterator[tuple[Grant, str]]:
        self._read()
        return super().grants_for(user, namespace)

    def _read(self) -> None:
        """Once.  The first events of the watches are the objects that were listed here, and change nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles"):
            take = self.on_role if plural.endswith("roles") else self.on_binding
            for obj in client.resource(GROUP, plural).lister.list():
                take("ADDED", obj)
        self.follow(client)
