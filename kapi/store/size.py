"""The maximum size of an object in the store.

etcd refuses requests over 1.5 MiB.  Here the limit is that of a request's body.  A larger object (defaults and managed fields
add to its size) could not be sent back in an update, and would be expensive for every client that watches it.
"""

from __future__ import annotations

from kapi.store.errors import ObjectTooLarge

MAX_OBJECT_BYTES = 3 * 1024 * 1024
_PENDING_BYTES = 64 * 1024  # what an object may grow while its deletion is pending


def check_size(key: str, size: int, limit: int, replaced: int = 0, going: bool = False) -> None:
    """Raises ObjectTooLarge for a ``size`` over the limit, unless the object is no larger than the one that it ``replaced``.

    So an object that was stored before there was a limit can still be changed.  An object that is ``going`` (its deletion was
    requested) may grow a little, because deletion writes into it: the time, finalizers, conditions, and the managed fields of the
    controllers that remove their finalizers.
    """
    space = max(limit, replaced)
    if going:
        space = limit + _PENDING_BYTES if replaced <= limit + _PENDING_BYTES else replaced + _PENDING_BYTES
    if size > space:
        raise ObjectTooLarge(key, size, limit)
