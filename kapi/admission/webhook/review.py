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
from kapi.client.answers import check_kind
from kapi.machinery import golang
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.machinery.uid import new_uid
from kapi.request.user import user_tree


class BadReview(ValueError):
    """A request that cannot be made, or an invalid answer."""


class Undecodable(ValueError):
    """An answer that is no AdmissionReview of the version that was asked for, or has values of wrong types."""


_GROUP = "admission.k8s.io"

_RESPONSE = {
    "uid": typed.text("types.UID"),
    "allowed": typed.boolean,
    "status": typed.STATUS,
    "patch": typed.base64,
    "patchType": typed.text("v1.PatchType"),
    "auditAnnotations": typed.string_map,
    "warnings": typed.list_of(typed.string),
}

_REVIEWS = {
    ("AdmissionReview", f"{_GROUP}/{version}"): typed.struct(
        f"{version}.AdmissionReview",
        request=typed.struct(f"{version}.AdmissionRequest"),
        response=typed.struct(f"{version}.AdmissionResponse", **_RESPONSE),
    )
    for version in ("v1", "v1beta1")
}


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
    try:
        check_kind(review, "AdmissionReview", f"{_GROUP}/{version}", _REVIEWS, typed.WEBHOOK_SCHEME)
    except ValueError as error:
        raise Undecodable(str(error)) from None
    response = review.get("response")
    if response is None:
        raise BadReview("webhook response was absent")
    patch, patch_type = golang.json_bytes(response.get("patch")), response.get("patchType")
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
            if patch:
                raise BadReview("validating webhook may not return response.patch")
            if patch_type is not None:
                raise BadReview("validating webhook may not return response.patchType")
        elif patch and patch_type is None:
            raise BadReview("webhook returned response.patch but not response.patchType")
        elif not patch and patch_type is not None:
            raise BadReview("webhook returned response.patchType but not response.patch")
        elif patch_type == "":
            raise BadReview('webhook returned invalid response.patchType of ""')
    elif patch and mutating:
        patch_type = "JSONPatch"
    return Answer(
        allowed=response.get("allowed") is True,
        patch=patch if mutating else b"",
        patch_type=patch_type or "",
        status=response.get("status"),
        warnings=response.get("warnings") or [],
        annotations=response.get("auditAnnotations") or {},
    )


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
        code=max(code, 400) if code <= 999 else 500,  # there is no status line with another code
        reason=status.get("reason") or "",
        details=status.get("details"),
        metadata=status.get("metadata"),
    )
