"""PATCH, with its patch types (upstream: ``endpoints/handlers/patch.go``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kapi.codecs.negotiation import APPLIED_AS, APPLY, check_patch_route, output_media_type
from kapi.codecs.reading import DecodingError, as_object, read_apply_body, read_patch, type_meta
from kapi.endpoints.authorization import create_check
from kapi.endpoints.body import check_name, raw_body
from kapi.endpoints.objects import stored_response
from kapi.endpoints.options import WriteOptions, write_options
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import golang, status, tree
from kapi.machinery.field import Path, format_value, invalid
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.gvk import GroupKind, GroupVersionKind
from kapi.machinery.raw import RawObject, compacted, member_text
from kapi.machinery.tree import Object, Tree
from kapi.registry import metadata as meta
from kapi.registry.operation import Operation
from kapi.registry.update import Transform, update
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.schema import jsonpatch, mergepatch, strategicmerge
from kapi.schema.converter import Converter, text_of
from kapi.schema.decode import RAW_MEMBERS, decode
from kapi.schema.managedfields import FieldManager
from kapi.schema.patched_text import all_sorted, json_patched, json_patched_member, merged, merged_member, visits
from kapi.schema.types import Type

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_KINDS = (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY)


def patch_types(scope: RequestScope) -> tuple[str, ...]:
    """The supported patch types; custom resources have no strategic merge patch."""
    if scope.resource.typed_items:
        return (JSON_PATCH, MERGE_PATCH, APPLY)
    return _KINDS


#: makes the new object from the stored one, which is None when there is none
Change = Callable[["Object | None"], Object]


async def patch_object(ctx: RequestContext, scope: RequestScope) -> Response:
    """200 with the stored object; 201 when an apply created it.  Raises StatusError."""
    kind = check_patch_route(ctx, patch_types(scope))
    name = request_name(ctx)
    media = output_media_type(ctx, "patch", scope.subresource is None or scope.subresource.tabular)
    op, transform = _read_change(ctx, scope, name, kind)
    creates = kind in APPLIED_AS and scope.subresource is None  # an apply to a subresource creates nothing
    stored = await update(scope.store, op, transform, allow_create=creates)
    return await stored_response(ctx, scope, op, stored, media)


def _read_change(ctx: RequestContext, scope: RequestScope, name: str, kind: str) -> tuple[Operation, Transform]:
    """The operation of a patch, and what each attempt does with the stored object.  Raises StatusError."""
    data = raw_body(ctx)
    options = write_options(ctx, "PatchOptions", kind)
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.authorize_create = create_check(ctx, scope)
    if ctx.audit is not None:
        ctx.audit.request_patch(data)
    make = _apply if kind in APPLIED_AS else _patch
    change = make(ctx, scope, op, options, data, kind)

    async def transform(existing: Object | None) -> Object:
        if existing is None and kind not in APPLIED_AS:  # some types can be created by PUT, but none by a patch
            raise status.not_found(op.group_resource, name)
        new = change(existing)
        if existing is None:
            _check_created(scope, name, new)
        info = ctx.info
        assert info is not None
        meta.ensure_namespace(new, info.namespace if scope.resource.namespaced else "", scope.gvr)
        check_name(ctx, new)
        return new

    return op, transform


def _check_created(scope: RequestScope, name: str, new: Object) -> None:
    """Checks an object that an apply creates, which has no uid.  Raises Conflict."""
    uid = new["metadata"].get("uid", "")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise status.conflict(scope.store.group_resource, name, why)


def _patch(
    ctx: RequestContext, scope: RequestScope, op: Operation, options: WriteOptions, data: bytes, kind: str
) -> Change:
    """A JSON, merge or strategic merge patch of a stored object, which is converted to the version of the request first."""

    def to_stored(decoded: Object) -> Object:
        new = scope.to_storage(decoded)
        scope.resource.strategy.default(new)
        return new

    def change(existing: Object | None) -> Object:
        assert existing is not None
        current = scope.current(existing)
        sent, new = patched(ctx, options, data, kind, current, scope.kind, scope.type, to_stored, op.stored)
        free_in_steps(sent, len(op.stored))
        op.sent = lambda: sent
        scope.store.track_update(op, existing, new)
        return new

    return change


def make_change(
    ctx: RequestContext,
    options: WriteOptions,
    data: bytes,
    kind: str,
    gvk: GroupVersionKind,
    type_: Type,
    fields: FieldManager,
    now: str,
) -> Change:
    """A patch of a view that is not stored itself (a Scale); updates the view's ``managedFields``."""

    def change(current: Object | None) -> Object:
        assert current is not None
        if kind in APPLIED_AS:
            return applied(ctx, options, data, kind, current, gvk, type_, fields, now)[1]
        _, new = patched(ctx, options, data, kind, tree.copy(current), gvk, type_, lambda decoded: decoded)
        fields.update(current, new, options.field_manager, now)
        return new

    return change


class _Outcome(NamedTuple):
    """What a patch has made of an object."""

    kind: str
    patch: Tree  # as the client sent it
    operations: list[Object]  # only of a JSON patch
    problems: list[str]  # unknown and duplicate fields of the patch
    result: Tree

    def text(self, type_: Type) -> str:
        """The result as errors quote it upstream."""
        if self.kind == STRATEGIC:
            return golang.value_text(self.patch)
        return format_value(self.written(type_))

    def written(self, type_: Type) -> Tree:
        """The result with its keys in the order in which upstream reads them; not for a strategic merge patch."""
        if type_.schema is not None or not isinstance(self.result, dict):
            return all_sorted(self.result)
        if self.kind == MERGE_PATCH:
            return merged(self.result, type_, self.patch)
        return json_patched(self.result, type_, self.operations)

    def reaches(self, member: str) -> bool:
        """Whether a member of the object is read or written anew."""
        if self.kind == MERGE_PATCH:
            return isinstance(self.patch, dict) and member in self.patch
        return self.kind == STRATEGIC or visits(self.operations, member)

    def refusal(self, type_: Type, why: str) -> status.StatusError:
        try:
            shown = self.text(type_)
        except (TypeError, RecursionError):  # nested too deeply to be shown
            shown = "..."
        return status.invalid(GroupKind("", ""), "", [invalid(Path("patch"), shown, why)])


def patched(
    ctx: RequestContext,
    options: WriteOptions,
    data: bytes,
    kind: str,
    current: Object,
    gvk: GroupVersionKind,
    type_: Type,
    convert: Callable[[Object], Object],
    stored: bytes = b"",
) -> tuple[Object, Object]:
    """Applies a patch to ``current`` in place; returns the result, and the result decoded and converted as a body would be.

    ``convert`` may raise DecodingError.  ``stored`` is the text of ``current``.
    """
    validation = options.field_validation
    outcome = _run(data, kind, current, type_, validation)
    raw = RAW_MEMBERS.get((gvk.group, gvk.kind))
    if raw is not None:
        _order_raw_member(outcome, raw)
    result, found = outcome.result, list(outcome.problems)
    try:
        as_object(result)
        if kind == STRATEGIC:
            result.update(_type_of_patched(result, gvk))
    except ValueError as error:
        raise outcome.refusal(type_, str(error)) from None
    try:
        new = _decoded(ctx, outcome, gvk, type_, found, validation != "Ignore")
        if kind != STRATEGIC:
            new = convert(new)
    except DecodingError as error:
        raise outcome.refusal(type_, error.cause) from None
    if found and validation == "Strict":
        raise outcome.refusal(type_, "strict decoding error: " + ", ".join(found))
    if validation == "Warn":
        for problem in found:
            ctx.warn(problem)
    if kind == STRATEGIC:
        try:
            new = convert(new)
        except DecodingError as error:  # upstream does not say what kind of error it is
            raise status.generic(error.cause) from None
    if raw is not None:
        _keep_raw_member(new, raw, outcome, stored)
    return result, new


def _run(data: bytes, kind: str, current: Object, type_: Type, validation: str) -> _Outcome:
    """Reads the patch and applies it to ``current``."""
    strict = validation != "Ignore"
    prefix = "error decoding patch: " if strict and kind != STRATEGIC else ""
    try:
        patch, problems = read_patch(data, validation, json_patch=kind == JSON_PATCH, prefix=prefix)
    except status.BadRequest:
        if strict or kind != MERGE_PATCH:
            raise
        raise status.bad_request("Invalid JSON Patch") from None
    if kind == JSON_PATCH:
        operations, problems = jsonpatch.decode(patch, strict=strict)
        return _Outcome(kind, patch, operations, problems, jsonpatch.apply(current, operations))
    if kind == MERGE_PATCH:
        result = mergepatch.apply(current, mergepatch.decode(patch, strict=strict))
    else:
        result = strategicmerge.apply(current, strategicmerge.decode(patch), type_)
    return _Outcome(kind, patch, [], problems, result)


def _order_raw_member(outcome: _Outcome, raw: str) -> None:
    """Orders the keys of a member that is stored as it was sent, as upstream does after each kind of patch."""
    result, patch = outcome.result, outcome.patch
    if not isinstance(result, dict) or not isinstance(result.get(raw), dict):
        return
    if outcome.kind == STRATEGIC:
        result[raw] = all_sorted(result[raw])
    elif outcome.kind == JSON_PATCH:
        result[raw] = json_patched_member(result[raw], raw, outcome.operations)
    elif isinstance(patch, dict) and raw in patch:
        result[raw] = merged_member(result[raw], patch[raw])


def _keep_raw_member(obj: Object, raw: str, outcome: _Outcome, stored: bytes) -> None:
    """Passes on the numbers and strings of such a member as they were written, where the patch does not reach it."""
    # without an apiVersion nothing is left of the object
    if not isinstance(obj.get(raw), dict) or outcome.reaches(raw):
        return
    text = member_text(stored, raw)
    if text is not None:
        obj[raw] = RawObject(obj[raw], compacted(text))


def _decoded(
    ctx: RequestContext, outcome: _Outcome, gvk: GroupVersionKind, type_: Type, found: list[str], asked: bool
) -> Object:
    """The result as a body would be decoded.  Raises DecodingError.

    ``found`` takes unknown and duplicate fields; their order matters only when ``asked`` for.
    """
    result = as_object(outcome.result)
    if type_.schema is not None:
        return _custom(result, gvk, type_, found.append)
    if outcome.kind == STRATEGIC:
        return decode(result, gvk, type_, "Collect", found.append, Converter)
    try:
        version, _ = type_meta(result)
    except ValueError as error:
        raise DecodingError(str(error)) from None
    if version:
        told: list[str] = []
        new = decode(result, gvk, type_, "Collect", told.append)
        found.extend(_in_order(told, outcome, gvk, type_) if asked and len(told) > 1 else told)
        return new
    # without a version upstream knows no field of the object, not even its name
    new = decode({"kind": gvk.kind, "apiVersion": str(gvk.group_version)}, gvk, type_, "Ignore", ctx.warn)
    new.setdefault("metadata", {})
    found.extend(f'unknown field "{name}"' for name in sorted(result) if name not in ("kind", "apiVersion"))
    return new


def _in_order(told: list[str], outcome: _Outcome, gvk: GroupVersionKind, type_: Type) -> list[str]:
    """Unknown and duplicate fields in the order of the patched text, which upstream reads again."""
    places: dict[str, int] = {}

    def place(text: str) -> None:
        places.setdefault(text, len(places))

    decode(as_object(outcome.written(type_)), gvk, type_, "Collect", place)
    # a duplicate may be missing there: the text of members that the patch has reached is written anew
    return sorted(told, key=lambda text: places.get(text, -1))


def _custom(result: Object, gvk: GroupVersionKind, type_: Type, warn: Callable[[str], None]) -> Object:
    """A patched custom resource, decoded.  It may have another version or kind now: validation refuses that later."""
    try:
        version, _ = type_meta(result)
    except ValueError as error:
        raise DecodingError(str(error)) from None
    if not version:
        raise status.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    new = decode({**result, "apiVersion": str(gvk.group_version)}, gvk, type_, "Collect", warn)
    new["apiVersion"] = version
    return new


def _type_of_patched(result: Object, gvk: GroupVersionKind) -> Object:
    """Kind and version after a strategic merge patch: the patched values are checked but not used.  Raises ValueError."""
    for name in ("kind", "apiVersion"):
        if result.get(name) is not None:
            text_of(result[name])
    return {"kind": gvk.kind, "apiVersion": str(gvk.group_version)}


def _apply(
    ctx: RequestContext, scope: RequestScope, op: Operation, options: WriteOptions, data: bytes, kind: str
) -> Change:
    """Server-side apply to a stored object."""
    manager = scope.store.field_manager(scope.resource, scope.subresource)

    def change(existing: Object | None) -> Object:
        live = None if existing is None else scope.current(existing)
        now = scope.store.environment.now()
        sent, decoded = applied(ctx, options, data, kind, live, scope.kind, scope.type, manager, now)
        op.sent = lambda: sent
        if live is not None:
            _write_raw_member(decoded, scope.kind, op.stored, live, sent)
        new = scope.to_storage(decoded)
        scope.resource.strategy.default_changed(new)
        return new

    return change


def _write_raw_member(obj: Object, gvk: GroupVersionKind, stored: bytes, live: Object, applied: Object) -> None:
    """Keeps the text of a raw member if the apply has changed nothing in it; otherwise upstream writes it anew."""
    raw = RAW_MEMBERS.get((gvk.group, gvk.kind))
    if raw is None or not isinstance(obj.get(raw), dict):
        return
    text = member_text(stored, raw) if _same_values(live, applied) else None
    obj[raw] = all_sorted(obj[raw]) if text is None else RawObject(obj[raw], text)


def _same_values(live: Object, new: Object) -> bool:
    """Whether an apply has changed nothing but ``managedFields``."""
    before, after = ({**obj, "metadata": {**obj["metadata"], "managedFields": None}} for obj in (live, new))
    return tree.equal(before, after)


def applied(
    ctx: RequestContext,
    options: WriteOptions,
    data: bytes,
    kind: str,
    live: Object | None,
    gvk: GroupVersionKind,
    type_: Type,
    fields: FieldManager,
    now: str,
) -> tuple[Object, Object]:
    """Applies the declared fields to the live object, with ``managedFields``; returns the result, and the result decoded."""
    declared, problems = read_apply_body(data, APPLIED_AS[kind])
    new = fields.apply(live, declared, options.field_manager, bool(options.force), now)
    if problems and options.field_validation == "Strict":
        listed = "\n  ".join(problems)
        text = f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {listed}"
        raise status.bad_request(text)
    if options.field_validation == "Warn":
        for problem in problems:
            ctx.warn(problem)
    try:
        return new, decode(new, gvk, type_, "Ignore", ctx.warn, Converter)
    except DecodingError as error:
        raise fields.conversion_error(declared, error.cause) from None
