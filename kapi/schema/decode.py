"""A body becomes an object of the wanted kind, exactly as Go's decoder and encoder would leave it.

Nulls and empty values disappear or appear as Go has it, quantities and times take their canonical form, unknown and
duplicate fields are dropped and reported as field validation asks.  The usual body takes the fast walk.
Upstream: apimachinery ``runtime/serializer/json``, ``endpoints/handlers/create.go`` (transformDecodeError).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable

import orjson

from kapi.codecs import json_pieces
from kapi.codecs.json_reading import loads_exactly, may_have_duplicates
from kapi.codecs.reading import DecodingError, Document, unrecognized
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.field import quote
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.raw import RawObject, member_text
from kapi.machinery.tree import Object
from kapi.schema import builtin, custom
from kapi.schema.decode_exact import ExactDecoder
from kapi.schema.decode_fast import Unusual, walk_of
from kapi.schema.legacy_kinds import internal_kind, is_meta, is_registered
from kapi.schema.types import Type

#: fields whose text counts, not only the tree
RAW_MEMBERS = {("apps", "ControllerRevision"): "data"}
#: levels of an object; upstream takes 10,000
MAX_DEPTH = 240
_ENCODER_DEPTH = 254
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_META_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


def decode(
    body: Object,
    kind: GroupVersionKind,
    type_: Type,
    validation: str,
    warn: Callable[[str], None],
    make_decoder: Callable[[], ExactDecoder] = ExactDecoder,
) -> Object:
    """The object of ``kind`` in a body's tree, with kind and apiVersion set.

    ``make_decoder`` may be Converter, for trees that never were a text of their own.
    ``validation``: "Ignore" drops what is unknown, "Warn" and "Collect" hand each message to ``warn``, "Strict" refuses.
    Raises DecodingError (a BadRequest) with upstream's words.
    """
    if type_.schema is not None:
        given = _custom_kind(body, kind, validation)
        if given != kind:  # its schema is another's
            type_ = dataclasses.replace(type_, preserve_unknown=True, fields={})
        kind = given
    given = _given_kind(body, kind)
    if given != kind and not _is_options(given, kind):
        return _refuse(body, given, kind)
    if _too_deep(body):
        raise _cannot(given, kind, "json: exceeded max depth")
    checkpoint()
    try:
        obj, problems = decode_tree(body, type_, strict=validation != "Ignore", make_decoder=make_decoder)
    except ValueError as error:
        raise _cannot(given, kind, str(error)) from None
    duplicates = body.duplicates if isinstance(body, Document) else []
    if validation == "Strict" and (problems or duplicates):
        texts = ["yaml: unmarshal errors:\n  " + "\n  ".join(duplicates), *problems] if duplicates else problems
        raise _cannot(given, kind, "strict decoding error: " + ", ".join(texts))
    if validation != "Ignore":
        for text in (*duplicates, *problems):
            warn(text)
    result: Object = {"kind": kind.kind, "apiVersion": str(kind.group_version)}
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    result.update(obj)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        result.setdefault("metadata", {})["managedFields"] = []  # forgets all owners; leaving it out keeps them
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
    """Whether all readers take a text as it was written; else what is stored is what Go makes of it (half surrogates)."""
    try:
        json_pieces.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _too_deep(body: Object) -> bool:
    """Whether an object is nested too deeply to be written, with space for what is put around it (managed fields, reviews)."""
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
    """A tree as Go would write it again, and its unknown and duplicate fields (only when ``strict``).

    Raises ValueError with Go's text for a value that the type cannot hold.
    """
    raw = tree.raw if isinstance(tree, Document) else None
    plain = dict(tree) if isinstance(tree, Document) else tree
    if type_.schema is not None:
        return custom.decode(plain, raw, type_, strict=strict)
    keys = [0]
    try:
        if isinstance(tree, Document) and tree.too_large:
            raise Unusual
        result: Object = walk_of(type_)(plain, keys)
        if raw is None or not may_have_duplicates(raw, keys[0]):
            return result, []  # else even when nobody is told: Go decodes a second value into the first
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


def _has_infinity(node: object) -> bool:
    if isinstance(node, dict):
        return any(_has_infinity(value) for value in node.values())
    if isinstance(node, list):
        return any(_has_infinity(value) for value in node)
    return isinstance(node, float) and math.isinf(node)


def _given_kind(body: Object, wanted: GroupVersionKind) -> GroupVersionKind:
    """What a body says it is; what it leaves out is as wanted."""
    kind = body.get("kind") or wanted.kind
    version = body.get("apiVersion") or ""
    if not isinstance(kind, str) or not isinstance(version, str):
        return wanted  # the walk finds the wrong type
    try:
        group_version = GroupVersion.parse(version)
    except ValueError as error:
        raise DecodingError(str(error)) from None
    if not group_version.version and group_version.group in ("", wanted.group):
        group_version = wanted.group_version
    return GroupVersionKind(group_version.group, group_version.version, kind)


def _custom_kind(body: Object, wanted: GroupVersionKind, validation: str) -> GroupVersionKind:
    """What a custom resource says it is: it must say so, in the right version; a wrong kind is validation's to find."""
    kind, version = body.get("kind"), body.get("apiVersion") or ""
    if not kind:
        source = body.source if isinstance(body, Document) else b""
        if validation == "Ignore":  # upstream's lenient decoder knows by then what was wanted
            if not source.lstrip().startswith(b"{"):  # YAML, which has become JSON
                source = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            given = _given_kind({**body, "kind": wanted.kind}, wanted)
            raise _cannot(given, wanted, f"Object 'Kind' is missing in '{source.decode('utf-8', 'replace')}'")
        raise unrecognized(source, wanted, f"Object 'Kind' is missing in '{source.decode('utf-8', 'replace')}'")
    if version != str(wanted.group_version):
        raise DecodingError(
            f"the API version in the data ({version}) does not match the expected API version ({wanted.group_version})"
        )
    return wanted._replace(kind=kind)


def _is_options(given: GroupVersionKind, wanted: GroupVersionKind) -> bool:
    """DeleteOptions and the like belong to every group."""
    return wanted.group == "meta.k8s.io" and given.kind == wanted.kind


def _cannot(given: GroupVersionKind, wanted: GroupVersionKind, cause: str) -> DecodingError:
    return DecodingError(
        f"{given.kind} in version {quote(given.version)} cannot be handled as a {wanted.kind}: {cause}", cause
    )


def _refuse(body: Object, given: GroupVersionKind, wanted: GroupVersionKind) -> Object:
    """Says why an object of another kind cannot be taken."""
    known = given in builtin.names_by_kind()
    if wanted.group == "meta.k8s.io" and is_meta(given):
        text = f"converting (v1.{given.kind}) to (v1.{wanted.kind}): unknown conversion"
        raise _cannot(given, wanted, text)
    if not known and not is_registered(given):
        version = str(given.group_version)
        scheme = _META_SCHEME if wanted.group == "meta.k8s.io" else _SCHEME
        text = f'no kind {quote(given.kind)} is registered for version {quote(version)} in scheme "{scheme}"'
        raise _cannot(given, wanted, text)
    if wanted.group == "meta.k8s.io":
        version = str(given.group_version)
        text = f'no kind {quote(given.kind)} is registered for version {quote(version)} in scheme "{_META_SCHEME}"'
        raise _cannot(given, wanted, text)
    if known:
        type_ = builtin.type_of(given)
        try:
            decode_tree(body, type_, strict=False)
        except ValueError as error:
            raise _cannot(given, wanted, str(error)) from None
    if internal_kind(given) == internal_kind(wanted):
        raise DecodingError(
            f"the API version in the data ({given.group_version}) does not match "
            f"the expected API version ({wanted.group_version})"
        )
    package = wanted.group.split(".", 1)[0] or "core"
    text = f"converting ({given.version}.{given.kind}) to ({package}.{wanted.kind}): unknown conversion"
    raise _cannot(given, wanted, text)
