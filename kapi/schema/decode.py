"""Decodes a body into an object of a kind, with the result that Go's decoder and encoder would have.

Nulls and empty values disappear or appear as in Go, quantities and times get their canonical form, unknown and duplicate
fields are dropped and reported according to field validation.  Usual bodies take the fast walk.  An object of a kind that is not
served but that upstream's scheme still knows gets an error that names its version.

Upstream: apimachinery ``runtime/serializer/json``, ``endpoints/handlers/create.go`` (transformDecodeError), the ``install``
packages of the legacy scheme.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import NoReturn

import orjson

from kapi.codecs import json_pieces
from kapi.codecs.json_reading import loads_exactly, may_have_duplicates
from kapi.codecs.reading import CBORDocument, DecodingError, Document, type_meta, unrecognized
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import json_integer, quote
from kapi.machinery.gvk import GroupKind, GroupVersion, GroupVersionKind
from kapi.machinery.raw import RawObject, member_text
from kapi.machinery.tree import Object, Tree
from kapi.schema import builtin, custom, decode_cbor
from kapi.schema.decode_exact import ExactDecoder
from kapi.schema.decode_fast import Unusual, walk_of
from kapi.schema.types import Type

_APPS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision")
_REGISTERED: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "v1"): ("List", "PodStatusResult", "RangeAllocation", "SerializedReference"),
    ("apps", "v1beta1"): ("Deployment", "StatefulSet", "ControllerRevision", "Scale"),
    ("apps", "v1beta2"): (*_APPS, "Scale"),
    ("authentication.k8s.io", "v1alpha1"): ("SelfSubjectReview",),
    ("authentication.k8s.io", "v1beta1"): ("TokenReview", "SelfSubjectReview"),
    ("authorization.k8s.io", "v1beta1"): (
        "SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectRulesReview",
    ),
    ("autoscaling", "v2beta1"): ("HorizontalPodAutoscaler",),
    ("autoscaling", "v2beta2"): ("HorizontalPodAutoscaler",),
    ("batch", "v1beta1"): ("CronJob",),
    ("certificates.k8s.io", "v1beta1"): ("CertificateSigningRequest",),
    ("coordination.k8s.io", "v1beta1"): ("Lease",),
    ("discovery.k8s.io", "v1beta1"): ("EndpointSlice",),
    ("events.k8s.io", "v1beta1"): ("Event",),
    ("extensions", "v1beta1"): ("DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "v1beta1"): ("Ingress", "IngressClass"),
    ("node.k8s.io", "v1alpha1"): ("RuntimeClass",),
    ("node.k8s.io", "v1beta1"): ("RuntimeClass",),
    ("policy", "v1beta1"): ("PodDisruptionBudget", "Eviction"),
    ("rbac.authorization.k8s.io", "v1alpha1"): ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1beta1"): ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "v1alpha1"): ("PriorityClass",),
    ("scheduling.k8s.io", "v1beta1"): ("PriorityClass",),
    ("storage.k8s.io", "v1alpha1"): ("VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"),
    ("storage.k8s.io", "v1beta1"): ("StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "CSIStorageCapacity"),
    ("admissionregistration.k8s.io", "v1beta1"): (
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
}  # fmt: skip
#: (former group, kind) -> current group
_MOVED = {
    ("extensions", "DaemonSet"): "apps",
    ("extensions", "Deployment"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("extensions", "Ingress"): "networking.k8s.io",
    ("extensions", "NetworkPolicy"): "networking.k8s.io",
    ("extensions", "Scale"): "autoscaling",
    ("apps", "Scale"): "autoscaling",
    ("events.k8s.io", "Event"): "",
}
#: kinds of meta/v1, which every scheme knows in any version
_UNVERSIONED = frozenset(("Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"))
_OPTIONS = frozenset(("ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions"))
#: (group, kind) -> field that is stored as the client wrote it
RAW_MEMBERS = {("apps", "ControllerRevision"): "data"}
MAX_DEPTH = 240  # levels of nesting of an object; upstream allows 10,000
_ENCODER_DEPTH = 254  # levels that orjson writes
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_META_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
#: of groups whose servers have schemes of their own
_SCHEMES = {
    "meta.k8s.io": _META_SCHEME,
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}

_OPEN: Object = {"x-kubernetes-preserve-unknown-fields": True}


def is_meta(kind: GroupVersionKind) -> bool:
    """Whether the scheme for options of requests knows a kind."""
    return kind.kind in _UNVERSIONED or kind.group == "meta.k8s.io" and kind.kind in _OPTIONS


def is_registered(kind: GroupVersionKind) -> bool:
    """Whether the scheme knows a kind that is not in Kubernetes' published definitions."""
    kinds = _REGISTERED.get((kind.group, kind.version), ())
    return kind.kind in kinds or kind.kind.removesuffix("List") in kinds


def internal_kind(kind: GroupVersionKind) -> GroupKind:
    """The group and kind of the internal version to which upstream converts an object."""
    return GroupKind(_MOVED.get((kind.group, kind.kind), kind.group), kind.kind)


def decode(
    body: Object,
    kind: GroupVersionKind,
    type_: Type,
    validation: str,
    warn: Callable[[str], None],
    make_decoder: Callable[[], ExactDecoder] = ExactDecoder,
) -> Object:
    """The object of ``kind`` in a body's tree, with kind and apiVersion set.

    ``make_decoder`` may be Converter, for the results of patches.
    ``validation`` of unknown and duplicate fields: "Ignore" drops them, "Warn" and "Collect" also call ``warn``, "Strict"
    raises.  Raises DecodingError (a BadRequest) with upstream's text.
    """
    if type_.schema is not None:
        given = _custom_kind(body, kind, validation)
        if given != kind:  # the schema is that of another kind
            type_ = dataclasses.replace(type_, schema=_OPEN, has_embedded=False)
        kind = given
    given = _given_kind(body, kind)
    if given != kind and not _is_options(given, kind):
        _refuse(body, given, kind)
    if _too_deep(body):
        raise cannot_handle(given, kind, "json: exceeded max depth")
    checkpoint()
    try:
        obj, problems = decode_tree(body, type_, strict=validation != "Ignore", make_decoder=make_decoder)
    except ValueError as error:
        why = str(error)
        if isinstance(body, CBORDocument):
            why = decode_cbor.type_error(body, type_, why)
        raise cannot_handle(given, kind, why) from None
    if problems and isinstance(body, CBORDocument):  # upstream's decoder of custom resources in CBOR is never strict
        problems = [decode_cbor.unknown_field(body, problems)] if type_.schema is None else []
    duplicates = body.duplicates if isinstance(body, Document) else []
    if validation == "Strict" and (problems or duplicates):
        texts = ["yaml: unmarshal errors:\n  " + "\n  ".join(duplicates), *problems] if duplicates else problems
        raise cannot_handle(given, kind, "strict decoding error: " + ", ".join(texts))
    if validation != "Ignore":
        for text in (*duplicates, *problems):
            warn(text)
    result: Object = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    result.update(obj)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        result.setdefault("metadata", {})[
            "managedFields"
        ] = []  # an empty list resets ownership, a missing one keeps it
    raw = RAW_MEMBERS.get((kind.group, kind.kind))
    if raw is not None and isinstance(result.get(raw), dict) and isinstance(body, Document) and body.raw is not None:
        checkpoint()
        written = member_text(body.raw, raw)
        checkpoint()
        if written is not None and _is_readable(written):
            result[raw] = RawObject(result[raw], written)
        checkpoint()
    if isinstance(body, Document):
        free_in_steps(result, len(body.source))
    return result


def _is_readable(text: bytes) -> bool:
    """Whether every JSON parser accepts a text; a text with half surrogates is stored after Go's repair."""
    try:
        json_pieces.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _too_deep(body: Object) -> bool:
    """Whether an object is nested too deeply to be written inside of another one, such as an AdmissionReview."""
    raw = body.raw if isinstance(body, Document) else None
    if raw is not None and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    try:
        json_pieces.dumps(dict(body), float, _ENCODER_DEPTH - MAX_DEPTH)  # numbers of a patch may be Literal
    except TypeError as error:
        return "Recursion limit" in str(error)
    return False


def decode_tree(
    tree: Object, type_: Type, *, strict: bool, make_decoder: Callable[[], ExactDecoder] = ExactDecoder
) -> tuple[Object, list[str]]:
    """The tree after Go's decoder and encoder, and its unknown and duplicate fields (only when ``strict``).

    Raises ValueError with Go's text for a value that the type cannot hold.
    """
    raw = tree.raw if isinstance(tree, Document) else None
    plain = tree
    if isinstance(tree, Document):
        if tree.refusal:
            raise ValueError(tree.refusal)
        plain = dict(tree)
    if type_.schema is not None:
        return custom.decode(plain, raw, type_, strict=strict, own=plain is not tree)
    keys = [0]
    try:
        if isinstance(tree, Document) and tree.too_large:
            raise Unusual
        result: Object = walk_of(type_)(plain, keys)
        if raw is None or not may_have_duplicates(raw, keys[0]):
            return result, []  # a duplicate counts even without reports: Go decodes the second value into the first
    except (Unusual, RecursionError):
        pass
    decoder = make_decoder()
    try:
        result = decoder.decode(plain if raw is None else loads_exactly(raw), type_)
        if isinstance(tree, Document) and tree.too_large and _has_infinity(result):
            raise ValueError(f"json: cannot unmarshal number {tree.too_large} into Go value of type float64")
    except RecursionError:
        raise ValueError("json: exceeded max depth") from None
    return result, decoder.problems if strict else []


def _with_digits(node: Tree) -> Tree:
    """A tree with whole numbers in Go's form of a float64 in JSON: below 1e21 with all digits."""
    if isinstance(node, dict):
        return {key: _with_digits(value) for key, value in entries(node)}
    if isinstance(node, list):
        return [_with_digits(value) for value in elements(node)]
    is_written_out = isinstance(node, float) and node.is_integer() and abs(node) < 1e21
    return json_integer(node) if is_written_out else node


def _has_infinity(node: object) -> bool:
    if isinstance(node, dict):
        return any(_has_infinity(value) for value in node.values())
    if isinstance(node, list):
        return any(_has_infinity(value) for value in node)
    return isinstance(node, float) and math.isinf(node)


def _given_kind(body: Object, expected: GroupVersionKind) -> GroupVersionKind:
    """The kind in a body, completed by the expected kind."""
    try:
        version, kind = type_meta(body)
    except ValueError:
        return expected  # the decoder reports the wrong type
    try:
        group_version = GroupVersion.parse(version)
    except ValueError as error:
        raise DecodingError(str(error)) from None
    if not group_version.version and group_version.group in ("", expected.group):
        group_version = expected.group_version
    return GroupVersionKind(group_version.group, group_version.version, kind or expected.kind)


def _custom_kind(body: Object, expected: GroupVersionKind, validation: str) -> GroupVersionKind:
    """The kind in a custom resource.  Raises DecodingError without a kind, or for another version.

    A wrong kind is left to validation.
    """
    version, kind = type_meta(body)
    if not kind:
        source = body.source if isinstance(body, Document) else b""
        if isinstance(body, CBORDocument):
            raise unrecognized(source, expected, f"Object 'Kind' is missing in '{decode_cbor.shown(body)}'")
        if validation == "Ignore":  # upstream's lenient decoder then knows the expected kind
            if not source.lstrip().startswith(b"{"):  # YAML, which upstream has converted to JSON
                shown = _with_digits(body)
                source = json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            given = _given_kind({**body, "kind": expected.kind}, expected)
            raise cannot_handle(given, expected, f"Object 'Kind' is missing in '{source.decode('utf-8', 'replace')}'")
        raise unrecognized(source, expected, f"Object 'Kind' is missing in '{source.decode('utf-8', 'replace')}'")
    if not version and isinstance(body, CBORDocument):
        why = f"Object 'apiVersion' is missing in '{decode_cbor.shown(body)}'"
        raise cannot_handle(GroupVersionKind("", "", kind), expected, why)
    if version != str(expected.group_version):
        raise DecodingError(
            f"the API version in the data ({version}) does not match the expected API version ({expected.group_version})"
        )
    return expected._replace(kind=kind)


def _is_options(given: GroupVersionKind, expected: GroupVersionKind) -> bool:
    """DeleteOptions and the like belong to every group."""
    return expected.group == "meta.k8s.io" and given.kind == expected.kind


def cannot_handle(given: GroupVersionKind, expected: GroupVersionKind, cause: str) -> DecodingError:
    """The error for a body of a known kind that is not of the expected kind, or is incomplete."""
    return DecodingError(
        f"{given.kind} in version {quote(given.version)} cannot be handled as a {expected.kind}: {cause}", cause
    )


def _refuse(body: Object, given: GroupVersionKind, expected: GroupVersionKind) -> NoReturn:
    """Raises the error for an object of another kind than the expected one."""
    known = given in builtin.names_by_kind()
    if expected.group == "meta.k8s.io" and is_meta(given):
        text = f"converting (v1.{given.kind}) to (v1.{expected.kind}): unknown conversion"
        raise cannot_handle(given, expected, text)
    if not known and not is_registered(given):
        version = str(given.group_version)
        scheme = _SCHEMES.get(expected.group, _SCHEME)
        text = f'no kind {quote(given.kind)} is registered for version {quote(version)} in scheme "{scheme}"'
        raise cannot_handle(given, expected, text)
    if expected.group == "meta.k8s.io":
        version = str(given.group_version)
        text = f'no kind {quote(given.kind)} is registered for version {quote(version)} in scheme "{_META_SCHEME}"'
        raise cannot_handle(given, expected, text)
    if known:
        type_ = builtin.type_of(given)
        try:
            decode_tree(body, type_, strict=False)
        except ValueError as error:
            raise cannot_handle(given, expected, str(error)) from None
    if internal_kind(given) == internal_kind(expected):
        raise DecodingError(
            f"the API version in the data ({given.group_version}) does not match "
            f"the expected API version ({expected.group_version})"
        )
    package = expected.group.partition(".")[0] or "core"
    text = f"converting ({given.version}.{given.kind}) to ({package}.{expected.kind}): unknown conversion"
    raise cannot_handle(given, expected, text)
