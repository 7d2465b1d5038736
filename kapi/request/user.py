"""The user of a request (upstream: apiserver ``authentication/user``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import orjson
from msgspec import Raw

from kapi.machinery.tree import Object

ANONYMOUS = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
SYSTEM_MASTERS = "system:masters"
#: extra that identifies the credential of a user
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_TENANT_PREFIX = "system:logical-cluster:"
#: the names of users whose credentials are objects
_OF_OBJECTS = ("system:serviceaccount:", "system:bootstrap:")


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An identity.  ``extra`` maps a lower-case key to its values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _encoded: Raw | None = field(default=None, init=False, compare=False, repr=False)  # see ``encoded_user``


def user_tree(user: UserInfo) -> Object:
    """``username``, ``uid``, ``groups``, ``extra`` in the API's form, without empty ones."""
    tree: Object = {}
    if user.name:
        tree["username"] = user.name
    if user.uid:
        tree["uid"] = user.uid
    if user.groups:
        tree["groups"] = list(user.groups)
    if user.extra:
        tree["extra"] = {key: list(user.extra[key]) for key in sorted(user.extra)}
    return tree


def encoded_user(user: UserInfo) -> Raw:
    """``user_tree`` as JSON; encoded once for each UserInfo, since authenticators cache these."""
    encoded = user._encoded
    if encoded is None:
        encoded = Raw(orjson.dumps(user_tree(user)))
        object.__setattr__(user, "_encoded", encoded)
    return encoded


def tenant(cluster: str, user: UserInfo | None) -> UserInfo | None:
    """A user of a logical cluster for the process (docs/adr/0029): one whom the cluster has authenticated is the cluster.

    Names and groups of its ServiceAccounts and bootstrap tokens have no meaning for the process: they give no exemption, no
    share of its time, and no exception from its audit log.
    """
    return _tenant(cluster) if user is not None and user.name.startswith(_OF_OBJECTS) else user


@lru_cache(1000)
def _tenant(cluster: str) -> UserInfo:
    return UserInfo(_TENANT_PREFIX + cluster, groups=(ALL_AUTHENTICATED,))


def is_tenant(user: UserInfo) -> bool:
    """Whether the user stands for a logical cluster."""
    return user.name.startswith(_TENANT_PREFIX)


#: The identity of the process itself, for the loopback client.
LOOPBACK_USER = UserInfo("system:apiserver", groups=(SYSTEM_MASTERS, ALL_AUTHENTICATED))
