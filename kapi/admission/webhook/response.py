"""The ``response`` of an AdmissionReview, each field of its type (upstream: ``k8s.io/api/admission/v1``, Status of ``meta/v1``).

Whoever runs a webhook writes what it answers: a number where a text belongs must not get any further.
"""

from __future__ import annotations

from kapi.client import typed
from kapi.machinery.tree import Object, Tree


class BadReview(ValueError):
    """A request that cannot be made or an answer that is not one."""


_CAUSE = typed.struct("v1.StatusCause", reason=typed.string, message=typed.string, field=typed.string)
_DETAILS = typed.struct(
    "v1.StatusDetails",
    name=typed.string,
    group=typed.string,
    kind=typed.string,
    uid=typed.string,
    causes=typed.list_of(_CAUSE),
    retryAfterSeconds=typed.int32,
)
_STATUS = typed.struct(
    "v1.Status", status=typed.string, message=typed.string, reason=typed.string, code=typed.int32, details=_DETAILS
)
_RESPONSE = typed.struct(
    "v1.AdmissionResponse",
    uid=typed.string,
    allowed=typed.boolean,
    status=_STATUS,
    patch=typed.string,
    patchType=typed.string,
    auditAnnotations=typed.string_map,
    warnings=typed.list_of(typed.string),
)


def checked_response(value: Tree) -> Object:
    """The same response.  Raises BadReview."""
    try:
        _RESPONSE(value, "AdmissionReview.response")
    except typed.WrongType as error:
        raise BadReview(str(error)) from None
    response: Object = value
    return response
