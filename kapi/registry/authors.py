"""The users of recent writes, for the console's stream of changes (upstream: none, except for the audit log).

Neither objects nor watch events carry the user who wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapi.machinery.gvk import GroupResource

_MAX_WRITES = 2000
_MAX_NAME_LENGTH = 256  # characters of a user's name that are stored: a header may carry many kB


class Authors:
    """The users of the last ``_MAX_WRITES`` writes of this process."""

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
