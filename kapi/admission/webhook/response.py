"""The ``response`` of an AdmissionReview, each field of its type (upstream: ``k8s.io/api/admission/v1``, Status of ``meta/v1``).

Whoever runs a webhook writes what it answers: a number where a text belongs must not get any further.
"""

from __future__ import annotations

from kapi.client import typed
from kapi.machinery.tree import Object, Tree


class BadReview(ValueError):
    """A request that cannot be made or an answer that is not one."""


_CAUSE = typed.struct("v1.StatusCause", reason=typed.text, message=typed.text, field=typed.text)
_DETAILS = typed.struct(
    "v1.StatusDetails",
    name=typed.text,
    group=typed.text,
    kind=typed.text,
    uid=typed.text,
    causes=typed.list_of(_CAUSE),
    retryAfterSeconds=typed.int32,
)
_STATUS = typed.struct(
    "v1.Status", status=typed.text, message=typed.text, reason=typed.text, code=typed.int32, details=_DETAILS
)
_RESPONSE = typed.struct(
    "v1.AdmissionResponse",
    uid=typed.text,
    allowed=typed.truth,
    status=_STATUS,
    patch=typed.text,
    patchType=typed.text,
    auditAnnotations=typed.texts,
    warnings=typed.list_of(typed.text),
)


def checked_response(value: Tree) -> Object:
    """The same response.  Raises BadReview."""
    try:
        _RESPONSE(value, "AdmissionReview.response")
    except typed.WrongType as error:
        raise BadReview(str(error)) from None
    response: Object = value
    return response
