"""Store errors become API errors here and nowhere else (upstream: apiserver ``storage/errors`` and ``storeerr``)."""

from __future__ import annotations

from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.store.errors import (
    Compacted,
    KeyExists,
    KeyMissing,
    ObjectTooLarge,
    OutcomeUnknown,
    Outdated,
    RevisionConflict,
    StoreError,
    StoreUnavailable,
)


def interpret(error: StoreError, resource: GroupResource, name: str) -> status.StatusError:
    """The API error for a store error."""
    if isinstance(error, KeyExists):
        return status.already_exists(resource, name)
    if isinstance(error, KeyMissing):
        return status.not_found(resource, name)
    if isinstance(error, (RevisionConflict, Outdated)):
        return status.conflict(resource, name, status.OPTIMISTIC_LOCK)
    if isinstance(error, Compacted):
        return status.expired("The provided continue parameter is too old or the resource version is too old.")
    if isinstance(error, ObjectTooLarge):
        size = f"{resource} {quote(name)} would be stored with {error.size} bytes, managed fields included"
        details = {"name": name, "group": resource.group, "kind": resource.resource}
        return status.RequestTooLarge(
            f"Request entity too large: {size}: limit is {error.limit}",
            details={key: value for key, value in details.items() if value},
        )
    if isinstance(error, OutcomeUnknown):  # without Retry-After: only the client knows whether a second try is safe
        return status.Timeout(f"Timeout: {error}")
    if isinstance(error, StoreUnavailable):
        return status.service_unavailable(f"the store is not available: {error}", retry_after=1)
    return status.internal(error)
