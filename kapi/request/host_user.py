"""The user of a request from the point of view of the process that serves it (docs/adr/0029).

ServiceAccounts, bootstrap tokens and impersonated users of a logical cluster belong to the cluster.  Their names and groups have
no meaning for the process: they give no exemption, no share of its time, and no exception from its audit log.
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
    """Whether ``host_user`` returned this user for a logical cluster."""
    return user.name.startswith(_PREFIX)


@lru_cache(1000)
def _tenant(cluster: str) -> UserInfo:
    return UserInfo(_PREFIX + cluster, groups=(ALL_AUTHENTICATED,))
