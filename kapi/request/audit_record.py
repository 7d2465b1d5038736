"""The reports of filters and endpoints to a request's audit event (``kapi.audit.event``)."""

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
        """Takes the answer.  An answer that is not sent in one piece must wait for the returned Deferred."""

    def complete(self, events: Sequence[Self], /) -> bool | Deferred[bool]:
        """Records that these requests are answered; their answers must wait for the returned Deferred, if any."""

    def panicked(self, error: BaseException) -> None: ...
