"""What filters and endpoints report of a request to its audit event (``kapi.audit.event``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from twisted.internet.defer import Deferred

from kapi.machinery.tree import Object
from kapi.request.response import Response

#: the annotation with the authorizer's decision: "allow" or "forbid"
DECISION = "authorization.k8s.io/decision"


class AuditRecord(Protocol):
    """Keeps objects and patches only when the policy's level includes them."""

    def request_object(self, obj: Object, served: Callable[[Object], Object] = ...) -> None: ...

    def request_patch(self, patch: bytes) -> None: ...

    def response_object(self, make: Callable[[], Object]) -> None: ...

    def status_object(self, status: Object) -> None: ...

    def answered(self, response: Response) -> bool | Deferred[bool]:
        """The answer is known.  One that does not leave whole is to wait for a Deferred."""

    def complete(self, events: Sequence[Self], /) -> bool | Deferred[bool]:
        """Records that all of these are answered, which they are not before a Deferred that is returned has fired."""

    def panicked(self, error: BaseException) -> None: ...
