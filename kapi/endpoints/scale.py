"""The scale subresource (upstream: ``registry/apps/deployment/storage`` ScaleREST, and those of other resources).

A Scale is a view of its parent: a write to it updates the parent's replicas.  ``managedFields`` are converted between the two
forms (apimachinery ``managedfields/scalehandler.go``).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.admission.interface import UPDATE
from kapi.codecs.negotiation import check_patch_route, output_media_type
from kapi.codecs.reading import DecodingError, read_apply_body
from kapi.endpoints.body import check_names, decode_object, raw_body
from kapi.endpoints.encoding import respond_object
from kapi.endpoints.options import APPLY, write_options
from kapi.endpoints.patch import make_change, patch_types
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import status, tree
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.gvk import GroupKind, GroupResource, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry import read
from kapi.registry.operation import Operation
from kapi.registry.update import update
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.resources.definition import Resource, ScaleMapping
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.printing import AGE, NAME_TEXT, column, name, table
from kapi.resources.shared.replicas import count
from kapi.schema import managedfields
from kapi.schema.builtin import type_of

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


async def scale(ctx: RequestContext, scope: RequestScope) -> Response:
    """GET, PUT and PATCH of a Scale.  Raises StatusError."""
    name = request_name(ctx)
    info = ctx.info
    assert info is not None
    if ctx.method == "GET":
        media = output_media_type(ctx, "get")
        entry = await read.get(scope.store, info.namespace, name, ctx.first("resourceVersion"))
        if scope.resource.typed_items:
            _must_have_replicas(scope.resource, scope.from_storage(entry.object))
        shown = to_scale(scope.resource, scope.from_storage(entry.object))
        return respond_object(ctx, _view_scope(scope), 200, shown, None, media)
    if ctx.method not in ("PUT", "PATCH"):
        raise status.method_not_allowed()
    return await _write(ctx, scope, name)


def _view_scope(scope: RequestScope) -> RequestScope:
    """The scope for responses, with the kind and the table columns of a Scale."""
    return RequestScope(SCALE_ROW, scope.store, scope.subresource)


SCALE_ROW = Resource(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    singular="scale",
    namespaced=True,
    verbs=(),
    table=table(
        column("Name", name, NAME_TEXT),
        column(
            "Desired",
            count("spec", "replicas"),
            "replicas is the desired number of instances for the scaled object.",
            "integer",
        ),
        column(
            "Available",
            count("status", "replicas"),
            "replicas is the actual number of observed instances of the scaled object.",
            "integer",
        ),
        AGE,
    ),
)


_NO_APPLY = (
    "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper "
    "version: request to convert CR to an invalid group/version: autoscaling/v1"
)


#: upstream's text for every invalid body: the scheme of custom resources has no Scale, so its error cannot be encoded
_NO_SCALE = (
    'no kind is registered for the type v1.Scale in scheme "k8s.io/apiextensions-apiserver/pkg/apiserver/'
    'customresource_handler.go:781"'
)


def _must_have_replicas(resource: Resource, parent: Object) -> None:
    """A custom resource without replicas has no scale."""
    path = _mapping(resource).spec_replicas
    if tree.dig(parent, *path) is None:
        error = f'the spec replicas field ".{".".join(path)}" does not exist'
        raise status.internal(error)


def _mapping(resource: Resource) -> ScaleMapping:
    sub = resource.subresource("scale")
    assert sub is not None
    return sub.scale or ScaleMapping()


def to_scale(resource: Resource, parent: Object) -> Object:
    """The parent as a Scale."""
    mapping, metadata = _mapping(resource), parent["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Object = {}
    replicas = tree.dig(parent, *mapping.spec_replicas) or 0
    if replicas:
        spec["replicas"] = replicas
    state: Object = {"replicas": tree.dig(parent, *mapping.status_replicas) or 0}
    selector = mapping.selector(parent)
    if selector:
        state["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": spec,
        "status": state,
    }


async def _write(ctx: RequestContext, scope: RequestScope, name: str) -> Response:
    info = ctx.info
    assert info is not None
    kind = check_patch_route(ctx.header("content-type"), patch_types(scope)) if ctx.method == "PATCH" else ""
    if kind == APPLY and scope.resource.typed_items:
        managedfields.FieldManager(type_of(SCALE), SCALE).check_kind(read_apply_body(raw_body(ctx))[0])
        raise status.generic(_NO_APPLY)  # upstream's converter of custom resources knows no Scale
    media = output_media_type(ctx, "update")
    data = raw_body(ctx)
    options = write_options(ctx, "PatchOptions" if kind else "UpdateOptions", kind)
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.view = lambda parent: to_scale(scope.resource, parent)
    type_ = type_of(SCALE)
    fields = managedfields.FieldManager(type_, SCALE, (), "scale")
    if kind:
        change = make_change(ctx, options, data, kind, SCALE, type_, fields, scope.store.environment.now())
    else:
        try:
            sent = decode_object(ctx, data, SCALE, type_, options.field_validation)
        except DecodingError:
            if scope.resource.typed_items:
                raise status.bad_request(_NO_SCALE) from None
            raise
        meta.ensure_namespace(sent, info.namespace, scope.gvr)
        check_names(ctx, scope, sent)

        def change(old: Object | None) -> Object:
            new: Object = tree.copy(sent)
            fields.update(old, new, options.field_manager, scope.store.environment.now())
            return new

    async def transform(parent: Object | None) -> Object:
        if parent is None:
            raise status.not_found(scope.store.group_resource, name)
        return await _transform(scope, op, parent, change, kind)

    uid = "" if kind else sent["metadata"].get("uid", "")
    stored = await update(scope.store, op, transform, uid=uid)
    shown = to_scale(scope.resource, await scope.answered(stored.obj))
    return respond_object(ctx, _view_scope(scope), 200, shown, None, media)


async def _transform(
    scope: RequestScope, op: Operation, parent: Object, change: Callable[[Object], Object], kind: str
) -> Object:
    """The parent with the replicas of the written Scale."""
    resource, store = scope.resource, scope.store
    mapping = _mapping(resource)
    old = to_scale(resource, parent)
    owned = _to_scale_fields(resource, mapping, parent["metadata"].get("managedFields") or [])
    if owned:
        old["metadata"]["managedFields"] = owned
    new = change(tree.copy(old))
    meta.ensure_namespace(new, op.namespace, scope.gvr)
    if kind:
        name = new["metadata"].get("name", "")
        if name != op.name:
            raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({op.name})")
    attributes = store.attributes(op, UPDATE, new, old)
    await store.admission.admit(attributes)
    new = attributes.obj or new
    replicas = (new.get("spec") or {}).get("replicas", 0)
    errors: list[FieldError] = []
    if not resource.typed_items:
        validate_metadata(new, errors)
    if replicas < 0:
        errors.append(invalid(Path("spec").child("replicas"), replicas, "must be greater than or equal to 0"))
    if errors:
        refused = resource.group_kind if resource.typed_items else GroupKind("autoscaling", "Scale")
        raise status.invalid(refused, op.name, errors)
    metadata = new["metadata"]
    uid, actual = metadata.get("uid", ""), parent["metadata"].get("uid", "")
    if uid and uid != actual and not resource.typed_items:
        refusal = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise status.conflict(GroupResource(resource.group, f"{resource.plural}/scale"), op.name, refusal)
    out: Object = tree.copy(parent)
    node = out
    for part in mapping.spec_replicas[:-1]:
        node = node.setdefault(part, {})
    node[mapping.spec_replicas[-1]] = replicas
    if kind == APPLY or kind == "":
        version = metadata.get("resourceVersion", "")
        out["metadata"]["resourceVersion"] = (
            version if version not in ("", "0") else parent["metadata"]["resourceVersion"]
        )
    else:
        out["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or parent["metadata"]["resourceVersion"]
    entries = _to_parent_fields(
        resource, mapping, parent["metadata"].get("managedFields") or [], metadata.get("managedFields") or []
    )
    if entries:
        out["metadata"]["managedFields"] = entries
    else:
        out["metadata"].pop("managedFields", None)
    return out


def _replicas_set(mapping: ScaleMapping) -> Object:
    owned: Object = {}
    for part in reversed(mapping.spec_replicas):
        owned = {f"f:{part}": owned}
    return owned


def _owns(entry: Object, path: tuple[str, ...]) -> bool:
    node = entry.get("fieldsV1") or {}
    for part in path:
        node = node.get(f"f:{part}")
        if node is None:
            return False
    return True


def _without(fields: Object, path: tuple[str, ...]) -> Object:
    """The field set without one leaf, and without sets that become empty."""
    key = f"f:{path[0]}"
    if key not in fields:
        return fields
    rest = {name: value for name, value in fields.items() if name != key}
    if len(path) > 1:
        below = _without(fields[key], path[1:])
        if below:
            below = {} if list(below) == ["."] else below  # the field itself is owned, but nothing below it
            return {name: (below if name == key else value) for name, value in fields.items()}
    return rest


def _identity(entry: Object) -> tuple[str, str, str, str]:
    return (
        entry.get("manager", ""),
        entry.get("operation", ""),
        entry.get("subresource", ""),
        "" if entry.get("operation") == "Apply" else entry.get("time", ""),
    )


def _to_scale_fields(resource: Resource, mapping: ScaleMapping, entries: list[Object]) -> list[Object]:
    """The parent's entries that own the replicas, as entries of the Scale."""
    return [
        {**entry, "apiVersion": "autoscaling/v1", "fieldsV1": _REPLICAS}
        for entry in entries
        if _owns(entry, mapping.spec_replicas)
    ]


def _to_parent_fields(
    resource: Resource, mapping: ScaleMapping, parent: list[Object], scale_entries: list[Object]
) -> list[Object]:
    """The parent's entries after a write to its Scale: a manager that lost the replicas there loses them here as well."""
    left = {_identity(entry): entry for entry in scale_entries if _owns(entry, ("spec", "replicas"))}
    out: list[Object] = []
    for entry in parent:
        if not _owns(entry, mapping.spec_replicas):
            out.append(entry)
        elif _identity(entry) in left:
            del left[_identity(entry)]
            out.append(entry)
        else:
            fields = _without(entry["fieldsV1"], mapping.spec_replicas)
            if fields:
                out.append({**entry, "fieldsV1": fields})
    for entry in left.values():
        # without a time: upstream looks it up among the parent's entries, where a new manager has none
        new = {key: value for key, value in entry.items() if key != "time"}
        new.update(apiVersion=str(resource.group_version), fieldsV1=_replicas_set(mapping))
        out.append(new)
    return sorted(out, key=lambda e: (e.get("operation") != "Apply", e.get("time", ""), e.get("manager", "")))
