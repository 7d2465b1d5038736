"""The error that an answer's Status says."""

from __future__ import annotations

import pytest

from kapi.client.errors import from_status
from kapi.machinery import status
from kapi.machinery.status import StatusError

CLASSES = [each for each in vars(status).values() if isinstance(each, type) and issubclass(each, StatusError)]


@pytest.mark.parametrize("kind", [each for each in CLASSES if each.reason], ids=lambda kind: kind.reason)
def test_it_is_of_the_class_of_its_reason(kind: type[StatusError]) -> None:
    made = from_status({"reason": kind.reason, "message": "m", "code": kind.code, "details": {"name": "x"}})
    assert isinstance(made, StatusError) and made.reason == kind.reason
    assert (str(made), made.code, made.details) == ("m", kind.code, {"name": "x"})
