"""API errors: what a client receives as a ``Status`` (upstream: apimachinery ``api/errors``).

::

    StatusError
     ├─ BadRequest 400        ├─ Conflict 409              ├─ TooManyRequests 429
     ├─ Unauthorized 401      ├─ Expired 410               ├─ InternalError 500
     ├─ Forbidden 403         ├─ RequestTooLarge 413       ├─ ServiceUnavailable 503
     ├─ NotFound 404          ├─ UnsupportedMediaType 415  └─ Timeout 504
     ├─ MethodNotAllowed 405  ├─ Invalid 422
     └─ NotAcceptable 406     └─ AlreadyExists 409

There is one class for each reason, so that callers can catch the errors that they can handle.  The functions below make errors
with upstream's messages and details.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupKind, GroupResource
from kapi.machinery.tree import Object

if TYPE_CHECKING:  # it takes msgspec, which clients do without
    from kapi.machinery.field import FieldError

MAX_CAUSES = 4 * 1024 * 1024  # characters of all causes of a 422


class StatusError(Exception):
    """An error that is answered with a Status object."""

    code = 500
    reason = ""

    def __init__(
        self,
        message: str,
        *,
        details: Object | None = None,
        code: int | None = None,
        reason: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        metadata: Object | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata or {}
        self.details = details
        self.headers = tuple(headers)
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason

    @property
    def status(self) -> Object:
        """The Status object; keys in upstream's order."""
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def retry_after(self) -> int:
        """Seconds after which the client may try again; 0 when the answer does not say."""
        return int((self.details or {}).get("retryAfterSeconds", 0))


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(StatusError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"


class Conflict(StatusError):
    code, reason = 409, "Conflict"


class Expired(StatusError):
    code, reason = 410, "Expired"


class RequestTooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(StatusError):
    code, reason = 504, "Timeout"


class OutOfTime(Timeout):
    """The error of a request that has reached its deadline.  A filter answers it, not the endpoint, without a media type."""


def is_namespace_ending(error: StatusError) -> bool:
    """Whether a creation was refused because its namespace is being deleted: it will be refused again."""
    causes = (error.details or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def resource_details(resource: GroupResource, name: str = "") -> Object:
    """``details`` that name a resource."""
    return _details(name, resource.group, resource.resource)


def _details(name: str, group: str, kind: str) -> Object:
    """The details without empty parts, as upstream."""
    details: Object = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def not_found(resource: GroupResource, name: str) -> NotFound:
    return NotFound(f"{resource} {quote(name)} not found", details=resource_details(resource, name))


def already_exists(resource: GroupResource, name: str) -> AlreadyExists:
    return AlreadyExists(f"{resource} {quote(name)} already exists", details=resource_details(resource, name))


def generate_name_conflict(resource: GroupResource, name: str) -> AlreadyExists:
    """All random names that were tried exist."""
    return AlreadyExists(
        f"{resource} {quote(name)} already exists, the server was not able to generate a unique name for the object",
        details={**resource_details(resource, name), "retryAfterSeconds": 1},
    )


def conflict(resource: GroupResource, name: str, why: str) -> Conflict:
    return Conflict(
        f"Operation cannot be fulfilled on {resource} {quote(name)}: {why}", details=resource_details(resource, name)
    )


OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: GroupResource, name: str, why: str) -> Forbidden:
    """``pods "x" is forbidden: why``; without a name ``pods is forbidden: why``; without a resource ``forbidden: why``."""
    if not resource.resource:
        text = f"forbidden: {why}"
    elif name:
        text = f"{resource} {quote(name)} is forbidden: {why}"
    else:
        text = f"{resource} is forbidden: {why}"
    return Forbidden(text, details=resource_details(resource, name))


def invalid(kind: GroupKind, name: str, errors: Sequence[FieldError]) -> Invalid:
    """The 422 of a failed validation.  The message has each distinct error once, in order.

    Each error may quote a long list; after ``MAX_CAUSES`` characters the other errors are only counted.
    """
    details = _details(name, kind.group, kind.kind)
    causes: list[Object] = []
    distinct: dict[str, None] = {}
    size = 0
    for error in errors:
        cause = error.cause()
        text = f"{error.field}: {cause['message']}"
        causes.append(cause)
        distinct[text] = None
        size += len(text)
        if size > MAX_CAUSES and len(causes) < len(errors):
            distinct[f"and {len(errors) - len(causes)} more errors"] = None
            break
    if causes:
        details["causes"] = causes
    checkpoint()  # joining megabytes takes long, and formatting them again; ``aggregate`` would walk over them in one piece
    summary = ", ".join(distinct)
    if len(distinct) > 1:
        summary = f"[{summary}]"
    message = f"{kind} {quote(name)} is invalid"
    checkpoint()
    return Invalid(f"{message}: {summary}" if summary else message, details=details)


def unauthorized() -> Unauthorized:
    """The 401, which never tells what was wrong with the credentials."""
    return Unauthorized("Unauthorized")


def bad_request(message: str) -> BadRequest:
    return BadRequest(message)


def internal(error: object) -> InternalError:
    return InternalError(f"Internal error occurred: {error}", details={"causes": [{"message": str(error)}]})


def method_not_supported(resource: GroupResource, action: str) -> MethodNotAllowed:
    return MethodNotAllowed(
        f'{action} is not supported on resources of kind "{resource}"', details=resource_details(resource)
    )


def method_not_allowed() -> MethodNotAllowed:
    """No route for this method on a path that exists."""
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def no_such_resource() -> NotFound:
    """No route at all."""
    return NotFound("the server could not find the requested resource", details={})


def too_many_requests(message: str, retry_after: int) -> TooManyRequests:
    return TooManyRequests(message, details={"retryAfterSeconds": retry_after} if retry_after else None)


def service_unavailable(message: str, retry_after: int = 0) -> ServiceUnavailable:
    details = {"retryAfterSeconds": retry_after} if retry_after else None
    return ServiceUnavailable(message, details=details)


def timeout(message: str, retry_after: int = 0) -> Timeout:
    details: Object = {"retryAfterSeconds": retry_after} if retry_after else {}
    return Timeout(f"Timeout: {message}", details=details)


def out_of_time() -> OutOfTime:
    """The 504 of a request that has reached its deadline."""
    return OutOfTime("Timeout: request did not complete within the allotted timeout", details={})


def write_out_of_time() -> Timeout:
    """The 504 of a write that has reached the deadline of writes (upstream: ``handlers/finisher``)."""
    return timeout("request did not complete within requested timeout - context deadline exceeded")


def too_large_resource_version(requested: int, current: int, retry_after: int = 1) -> Timeout:
    """The 504 of a read at a revision that the server has not reached; ``retry_after``: in seconds, 0 for none."""
    details: Object = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return Timeout(f"Timeout: Too large resource version: {requested}, current: {current}", details=details)


def expired(message: str, continue_token: str = "") -> Expired:
    return Expired(message, metadata={"continue": continue_token} if continue_token else None)


def generic(message: str, code: int = 500) -> StatusError:
    """An error without a reason, which is upstream's answer for a plain Go error."""
    return StatusError(message, code=code)


_MAX_QUOTED = 2048  # bytes of a body that is not a Status
#: the reason and the message of an answer without a Status, by its code
_WITHOUT_STATUS = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}


def unstructured_text(body: bytes, media_type: str) -> str:
    """What an answer without a Status says; "unknown" when its body is no text (upstream: client-go ``isTextResponse``)."""
    if media_type and not media_type.lstrip().lower().startswith("text/"):
        return "unknown"
    return body[:_MAX_QUOTED].decode("utf-8", "replace").strip()


def without_status(code: int, method: str, said: str) -> tuple[str, str]:
    """(reason, message) for an error of another server that sends no Status (upstream: ``NewGenericServerResponse``).

    ``said`` is its ``unstructured_text``.
    """
    if code == 403:
        return "Forbidden", said
    if code == 415:
        return "UnsupportedMediaType", said
    if code == 406 and said not in ("", "unknown"):
        return "NotAcceptable", said
    if code == 409 and method == "POST":
        return "AlreadyExists", _WITHOUT_STATUS[code][1]
    if code in _WITHOUT_STATUS:
        return _WITHOUT_STATUS[code]
    if code >= 500:
        return "InternalError", f"an error on the server ({quote(said)}) has prevented the request from succeeding"
    return "", f"the server responded with the status code {code} but did not return more information"
