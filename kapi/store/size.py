"""How large an object may be in the store.

etcd refuses what is over 1.5 MiB.  Here the limit is that of a body, since an object that grew beyond it (by defaults and
managed fields) could not be sent back by an update, and would be decoded and encoded whole for each who follows it.
"""

from __future__ import annotations

from kapi.store.errors import ObjectTooLarge

MAX_OBJECT_BYTES = 3 * 1024 * 1024
_PENDING_BYTES = 64 * 1024  # bytes


def check_size(key: str, size: int, limit: int, replaced: int = 0, going: bool = False) -> None:
    """``size``: bytes of an object over the limit.  Raises ObjectTooLarge unless it is no larger than what it replaces.

    So an object from before the limit can be changed and made smaller.  One that is ``going`` (its deletion was asked for)
    has some space for what deletion writes into it, lest it could not be deleted: the time, finalizers, conditions, the
    managed fields of those who take their finalizers away.
    """
    space = max(limit, replaced)
    if going:
        space = limit + _PENDING_BYTES if replaced <= limit + _PENDING_BYTES else replaced + _PENDING_BYTES
    if size > space:
        raise ObjectTooLarge(key, size, limit)
