"""Who wrote what lately (upstream: none; its audit log alone knows).

Neither objects nor watch events carry the user, so what shows changes as they come has nobody to name.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.gvk import GroupResource

_MAX_WRITES = 2000
_MAX_NAME_LENGTH = 256  # characters of a user's name that are kept: a header may bring one of many kB


class Authors:
    """The users of the newest writes that this process has made."""

    def __init__(self) -> None:
        self._users: dict[tuple[GroupResource, int], str] = {}  # by resource and revision, oldest first

    def note(self, resource: GroupResource, revision: int, user: str) -> None:
        users = self._users
        users[resource, revision] = user[:_MAX_NAME_LENGTH]
        if len(users) > _MAX_WRITES:
            del users[next(iter(users))]

    def __iter__(self) -> Iterator[tuple[GroupResource, int, str]]:
        """(resource, revision, user), oldest first."""
        return ((resource, revision, user) for (resource, revision), user in self._users.items())
