"""AdmissionReview: the request to a webhook, and its answer, whose fields are checked.

A webhook may answer anything: a number in place of a text must be refused here.
Upstream: ``webhook/request/admissionreview.go``, ``k8s.io/api/admission/v1``, Status of ``meta/v1``.
"""

from __future__ import annotations

import msgspec

from kapi.admission.interface import Attributes
from kapi.admission.versions import in_version
from kapi.admission.webhook.matching import Invocation
from kapi.client import typed
from kapi.codecs.reading import type_meta
from kapi.machinery import golang
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object, Tree
from kapi.machinery.uid import new_uid
from kapi.request.user import user_tree


class BadReview(ValueError):
    """A request that cannot be made, or an invalid answer."""


class Undecodable(ValueError):
    """An answer that is no AdmissionReview of the version that was asked for, or has values of wrong types."""


_GROUP = "admission.k8s.io"
_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"


_CAUSE = typed.struct("v1.StatusCause", reason=typed.string, message=typed.string, field=typed.string)
_DETAILS = typed.struct(
    "v1.StatusDetails",
    name=typed.string,
    group=typed.string,
    kind=typed.string,
    uid=typed.string,
    causes=typed.list_of(_CAUSE, "v1.StatusCause"),
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
    """Checks a response and returns it.  Raises Undecodable."""
    try:
        _RESPONSE(value, "AdmissionReview.response")
    except typed.WrongType as error:
        raise Undecodable(str(error)) from None
    response: Object = value
    return response


class Answer(msgspec.Struct):
    """The decision of a webhook."""

    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    status: Object | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


def make_review(attributes: Attributes, invocation: Invocation, obj: Object | None) -> tuple[str, str, Object]:
    """(uid, version, review) for a hook; ``obj`` is the new object in the hook's version.  Raises BadReview."""
    version = next((v for v in invocation.hook.review_versions if v in ("v1", "v1beta1")), "")
    if not version:
        raise BadReview("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    uid = new_uid()
    request: Object = {"uid": uid, "kind": _kind(invocation.kind), "resource": _resource(invocation.resource)}
    if attributes.subresource:
        request["subResource"] = attributes.subresource
    request["requestKind"] = _kind(attributes.kind)
    request["requestResource"] = _resource(attributes.resource)
    if attributes.subresource:
        request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if namespace := attributes.namespace_of_request:
        request["namespace"] = namespace
    request |= {
        "operation": attributes.operation,
        "userInfo": user_tree(attributes.user),
        "object": obj,
        "oldObject": in_version(attributes.old, invocation.kind, attributes),
        "dryRun": attributes.dry_run,
        "options": attributes.options or None,
    }
    return uid, version, {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def _kind(kind: GroupVersionKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: GroupVersionResource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}


def read_answer(review: Object, uid: str, version: str, mutating: bool) -> Answer:
    """Checks a webhook's answer.  Raises Undecodable and BadReview."""
    _check_kind(review, version)
    if review.get("response") is None:
        raise BadReview("webhook response was absent")
    response = checked_response(review["response"])
    patch_text, patch_type = response.get("patch"), response.get("patchType")
    try:
        patch = golang.base64_bytes(patch_text or "")
    except ValueError as error:
        raise Undecodable(str(error)) from None
    if version == "v1":
        if (response.get("uid") or "") != uid:
            found = golang.quote(response.get("uid") or "")
            raise BadReview(f'expected response.uid="{uid}", got {found}')
        api_version, kind = review.get("apiVersion") or "", review.get("kind") or ""
        if not api_version or not kind:
            group, _, number = api_version.rpartition("/")
            raise BadReview(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
                f"got {group}/{number}, Kind={kind}"
            )
        if not mutating:
            if patch_text:
                raise BadReview("validating webhook may not return response.patch")
            if patch_type is not None:
                raise BadReview("validating webhook may not return response.patchType")
        elif patch_text and patch_type is None:
            raise BadReview("webhook returned response.patch but not response.patchType")
        elif not patch_text and patch_type is not None:
            raise BadReview("webhook returned response.patchType but not response.patch")
        elif patch_type == "":
            raise BadReview('webhook returned invalid response.patchType of ""')
    elif patch_text and mutating:
        patch_type = "JSONPatch"
    return Answer(
        allowed=response.get("allowed") is True,
        patch=patch if mutating else b"",
        patch_type=patch_type or "",
        status=response.get("status"),
        warnings=response.get("warnings") or [],
        annotations=response.get("auditAnnotations") or {},
    )


def _check_kind(review: Object, version: str) -> None:
    """What is missing is taken for what was asked for.  Raises Undecodable."""
    try:
        given, kind = type_meta(review)
    except ValueError as error:
        raise Undecodable(str(error)) from None
    wanted = f"{_GROUP}/{version}"
    given, kind = given or wanted, kind or "AdmissionReview"
    if (kind, given) == ("AdmissionReview", wanted):
        return
    if (kind, given) in (
        ("AdmissionReview", f"{_GROUP}/v1"),
        ("AdmissionReview", f"{_GROUP}/v1beta1"),
        ("Status", "v1"),
    ):
        number = given.rpartition("/")[2]
        raise Undecodable(f"converting ({number}.{kind}) to ({version}.AdmissionReview): unknown conversion")
    raise Undecodable(f'no kind "{kind}" is registered for version "{given}" in scheme "{_SCHEME}"')


def rejection(hook_name: str, status: Object | None) -> StatusError:
    """The error for a refused request: the webhook's own Status, which names the webhook."""
    status = status or {}
    denied = f'admission webhook "{hook_name}" denied the request'
    code = status.get("code") or 400
    if status.get("message"):
        text = f"{denied}: {status['message']}"
    elif status.get("reason"):
        text = f"{denied}: {status['reason']}"
    else:
        text = f"{denied} without explanation"
    return StatusError(
        text,
        code=max(code, 400) if code <= 599 else 500,  # clients cannot parse a status line with another code
        reason=status.get("reason") or "",
        details=status.get("details"),
    )
