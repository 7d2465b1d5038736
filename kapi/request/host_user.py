"""Who makes a request, to the process that serves it (docs/adr/0029).

In a logical cluster ServiceAccounts, bootstrap tokens and whom somebody impersonates are the cluster's own: their names and
groups give them nothing of the process, neither exemption nor a share of its time nor silence in its audit log.
"""

from __future__ import annotations

from functools import lru_cache

from kapi.request.context import RequestContext
from kapi.request.user import ALL_AUTHENTICATED, UserInfo

_PREFIX = "system:logical-cluster:"
#: the names of users whose credentials are objects
_OF_OBJECTS = ("system:serviceaccount:", "system:bootstrap:")


def host_user(ctx: RequestContext) -> UserInfo | None:
    """The effective user; in a logical cluster the user whom the process itself has authenticated, or the cluster."""
    if not ctx.cluster:
        return ctx.user
    user = ctx.original_user or ctx.user
    return _tenant(ctx.cluster) if user is not None and user.name.startswith(_OF_OBJECTS) else user


def is_tenant(user: UserInfo) -> bool:
    """Whether it is a cluster that ``host_user`` has returned."""
    return user.name.startswith(_PREFIX)


@lru_cache(1000)
def _tenant(cluster: str) -> UserInfo:
    return UserInfo(_PREFIX + cluster, groups=(ALL_AUTHENTICATED,))
