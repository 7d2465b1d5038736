"""The user of a request (upstream: apiserver ``authentication/user``)."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from msgspec import Raw

from kapi.machinery.tree import Object

ANONYMOUS = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
SYSTEM_MASTERS = "system:masters"
#: extra that identifies the credential of a user
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


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


#: The identity of the process itself, for the loopback client.
LOOPBACK_USER = UserInfo("system:apiserver", groups=(SYSTEM_MASTERS, ALL_AUTHENTICATED))
