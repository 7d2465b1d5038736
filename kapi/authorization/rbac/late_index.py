"""What RBAC knows of a logical cluster, read when somebody is first asked about who is no member of system:masters.

Most clusters of tests are used by their administrators alone; the default roles are the most of what an empty one takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.authorization.rbac.index import GROUP, Grant, PolicyIndex
from kapi.authorization.rbac.role_rules import RoleRules
from kapi.client.interface import Client
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo


class LatePolicyIndex(PolicyIndex):
    """Reads all there is through ``client`` at the first question, and follows it from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def role_rules(self, ref: Object, namespace: str) -> RoleRules:
        self._read()
        return super().role_rules(ref, namespace)

    def grants_for(self, user: UserInfo, namespace: str) -> Iterator[tuple[Grant, str]]:
        self._read()
        return super().grants_for(user, namespace)

    def _read(self) -> None:
        """Once.  What the watches begin with is what was read here, and changes nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        served = {plural for group, plural, _ in client.resources() if group == GROUP}
        for plural in sorted(served):
            take = self.on_role if plural.endswith("roles") else self.on_binding
            for obj in client.resource(GROUP, plural).lister.list():
                take("ADDED", obj)
        self.follow(client)
