"""Who makes a request (upstream: apiserver ``authentication/user``)."""

from __future__ import annotations

from dataclasses import dataclass, field

ANONYMOUS = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
SYSTEM_MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An identity.  ``extra`` maps a lower-case key to its values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


#: The identity of the process itself, for the loopback client.
LOOPBACK_USER = UserInfo("system:apiserver", groups=(SYSTEM_MASTERS, ALL_AUTHENTICATED))
