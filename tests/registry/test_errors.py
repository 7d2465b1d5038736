"""What a client is told of an error of the store."""

from __future__ import annotations

import pytest

from kapi.machinery.gvk import GroupResource
from kapi.registry.errors import interpret
from kapi.store import errors

PODS = GroupResource("", "pods")


@pytest.mark.parametrize(
    ("error", "code", "reason", "text"),
    [
        (errors.KeyExists("k", 1), 409, "AlreadyExists", 'pods "a" already exists'),
        (errors.KeyMissing("k"), 404, "NotFound", 'pods "a" not found'),
        (errors.RevisionConflict("k", 1, 2), 409, "Conflict", "the object has been modified"),
        (errors.Compacted(1, 2), 410, "Expired", "too old"),
        (errors.StoreUnavailable("away"), 503, "ServiceUnavailable", "away"),
        (errors.OutcomeUnknown("unknown"), 504, "Timeout", "unknown"),
        (errors.StoreError("odd"), 500, "InternalError", "odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_error_has_its_status(error: errors.StoreError, code: int, reason: str, text: str) -> None:
    told = interpret(error, PODS, "a")
    assert (told.code, told.reason) == (code, reason)
    assert text in str(told)


def test_whether_to_write_again_is_the_clients_to_decide_when_the_outcome_is_unknown() -> None:
    unknown = interpret(errors.OutcomeUnknown("unknown"), PODS, "a")
    unavailable = interpret(errors.StoreUnavailable("away"), PODS, "a")
    assert "retryAfterSeconds" not in (unknown.details or {})
    assert (unavailable.details or {})["retryAfterSeconds"] == 1
