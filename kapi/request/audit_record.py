"""What filters and endpoints report of a request to its audit event (``kapi.audit.event``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from kapi.machinery.tree import Object
from kapi.request.response import Response


class AuditRecord(Protocol):
    """Objects and patches are kept as far as the policy's level wants them."""

    def request_object(self, obj: Object) -> None: ...

    def request_patch(self, patch: bytes) -> None: ...

    def response_object(self, obj: Object) -> None: ...

    def error(self, status: Object) -> None: ...

    def answered(self, response: Response) -> None: ...

    def complete(self, events: Sequence[Self], /) -> None:
        """Records that all of these are answered."""

    def panicked(self, error: BaseException) -> None: ...
