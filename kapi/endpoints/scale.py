"""The scale subresource (upstream: ``registry/apps/deployment/storage`` ScaleREST, and those of other resources).

A Scale is a view of its parent: a write to it updates the parent's replicas.  ``managedFields`` are converted between the two
forms (apimachinery ``managedfields/scalehandler.go``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kapi.admission.interface import UPDATE
from kapi.codecs.negotiation import APPLIED_AS, check_patch_route, output_media_type
from kapi.codecs.reading import DecodingError
from kapi.endpoints.body import check_name, check_named, decode_object, raw_body
from kapi.endpoints.encoding import respond_object
from kapi.endpoints.options import write_options
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
from kapi.resources.definition import Resource, ScaleMapping, type_meta
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.printing import AGE, AGE_TEXT, NAME, NAME_TEXT, age, column, name, table
from kapi.resources.shared.replicas import count
from kapi.schema.apply import fieldset
from kapi.schema.apply.fieldset import Set
from kapi.schema.apply.updater import Managers, Owned
from kapi.schema.builtin import type_of
from kapi.schema.managedfields import FieldManager
from kapi.schema.managedfields_entries import decode, encode

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_API_VERSION = str(SCALE.group_version)
_REPLICAS_PATH = ("f:spec", "f:replicas")
_REPLICAS: Set = fieldset.path_set(_REPLICAS_PATH)
_NO_REPLICAS = -(2**31)  # upstream's value for a custom resource without the field


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
    return await _write(ctx, scope, name)


def _view_scope(scope: RequestScope) -> RequestScope:
    """The scope for responses, with the kind and the table columns of a Scale."""
    row = CUSTOM_SCALE_ROW if scope.resource.typed_items else SCALE_ROW
    return RequestScope(row, scope.store, scope.subresource)


SCALE_ROW = Resource(
    *type_meta("autoscaling/v1", "Scale"),
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


#: the Scale of a custom resource, whose columns are those of a definition (apiextensions ``apiserver/helpers.go``)
CUSTOM_SCALE_ROW = replace(
    SCALE_ROW,
    table=table(
        NAME,
        column("Desired", lambda obj, now: tree.dig(obj, "spec", "replicas"), "Number of desired replicas", "integer"),
        column(
            "Available", lambda obj, now: tree.dig(obj, "status", "replicas"), "Number of actual replicas", "integer"
        ),
        column("Age", age, AGE_TEXT, "date"),
    ),
)

_CONVERSION = "request to convert CR to an invalid group/version: autoscaling/v1"


#: upstream's text for every invalid body: the scheme of custom resources has no Scale, so its error cannot be encoded
_NO_SCALE = (
    'no kind is registered for the type v1.Scale in scheme "k8s.io/apiextensions-apiserver/pkg/apiserver/'
    'customresource_handler.go:781"'
)


def _must_have_replicas(resource: Resource, parent: Object) -> None:
    """A custom resource without replicas has no scale."""
    path = _mapping(resource).spec_replicas
    if tree.dig(parent, *path) is None:
        raise status.internal(f'the spec replicas field ".{".".join(path)}" does not exist')


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


class _CustomFieldManager(FieldManager):
    """Applies to the Scale of a custom resource.  Upstream's converter of custom resources knows no Scale.

    So an apply succeeds only if it changes nothing.
    """

    def apply(self, live: Object | None, applied: Object, manager: str, force: bool, now: str) -> Object:
        self.check_kind(applied)
        assert live is not None
        metadata = live["metadata"]
        if not metadata.get("managedFields"):
            text = f"failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: {_CONVERSION}"
            raise status.generic(f"failed to create manager for existing fields: {text}")
        new = super().apply(live, applied, manager, force, now)
        if not tree.equal({**new, "metadata": None}, {**live, "metadata": None}):
            shown = f"/{metadata['name']}; autoscaling/v1, Kind=Scale"
            raise status.generic(f"failed to convert new object ({shown}) to proper version: {_CONVERSION}")
        return new


async def _write(ctx: RequestContext, scope: RequestScope, name: str) -> Response:
    info = ctx.info
    assert info is not None
    kind = check_patch_route(ctx, patch_types(scope)) if ctx.method == "PATCH" else ""
    media = output_media_type(ctx, "update")
    data = raw_body(ctx)
    options = write_options(ctx, "PatchOptions" if kind else "UpdateOptions", kind)
    op = scope.operation(ctx, name, options.tree, options.field_manager, options.dry_run)
    op.view = lambda parent: to_scale(scope.resource, parent)
    type_ = type_of(SCALE)
    make_manager = _CustomFieldManager if scope.resource.typed_items else FieldManager
    fields = make_manager(type_, SCALE, (), "scale")
    if kind:
        if ctx.audit is not None:
            ctx.audit.request_patch(data)
        change = make_change(ctx, options, data, kind, SCALE, type_, fields, scope.store.environment.now())
    else:
        try:
            sent = decode_object(ctx, data, SCALE, type_, options.field_validation)
        except DecodingError:
            if scope.resource.typed_items:
                raise status.bad_request(_NO_SCALE) from None
            raise
        if ctx.audit is not None:
            ctx.audit.request_object(sent)
        meta.ensure_namespace(sent, info.namespace, scope.gvr)
        check_name(ctx, sent)

        def change(old: Object | None) -> Object:
            new: Object = tree.copy(sent)
            fields.update(old, new, options.field_manager, scope.store.environment.now())
            return new

    async def transform(parent: Object | None) -> Object:
        assert parent is not None  # no kind with a Scale is created by an update
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
    managers, times = decode(parent["metadata"].get("managedFields") or [])
    entries = encode(_to_scale_fields(mapping, managers), times)
    if entries:
        old["metadata"]["managedFields"] = entries
    without = resource.typed_items and tree.dig(parent, *mapping.spec_replicas) is None
    if without:
        old["spec"]["replicas"] = _NO_REPLICAS
    new = change(tree.copy(old))
    if without and (new.get("spec") or {}).get("replicas", 0) == _NO_REPLICAS:
        path = ".".join(mapping.spec_replicas)
        raise status.bad_request(f'the spec replicas field ".{path}" cannot be empty')
    meta.ensure_namespace(new, op.namespace, scope.gvr)
    if kind:
        check_named(new, op.name)
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
    if kind in APPLIED_AS or kind == "":
        version = metadata.get("resourceVersion", "")
        out["metadata"]["resourceVersion"] = (
            version if version not in ("", "0") else parent["metadata"]["resourceVersion"]
        )
    else:
        out["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or parent["metadata"]["resourceVersion"]
    # without times of new managers: upstream looks them up among the parent's
    entries = encode(_to_parent_fields(resource, mapping, managers, metadata.get("managedFields") or []), times)
    if entries:
        out["metadata"]["managedFields"] = entries
    else:
        out["metadata"].pop("managedFields", None)
    return out


def _to_scale_fields(mapping: ScaleMapping, managers: Managers) -> Managers:
    """The parent's managers that own the replicas, as managers of the Scale."""
    return {
        manager: Owned(_REPLICAS, _API_VERSION, owned.applied)
        for manager, owned in managers.items()
        for path in [mapping.field_path(owned.api_version)]
        if path and fieldset.has(owned.fields, path)
    }


def _to_parent_fields(
    resource: Resource, mapping: ScaleMapping, parent: Managers, scale_entries: list[Object]
) -> Managers:
    """The parent's managers after a write to its Scale: a manager that lost the replicas there loses them here as well.

    A manager that updates is not found again, because its identity has the version of the Scale: its entry is divided.
    """
    scale, _ = decode(scale_entries)
    out: Managers = {}
    for manager, owned in parent.items():
        path = mapping.field_path(owned.api_version)
        if path is None:
            continue  # a version that is not served any more
        if not path or not fieldset.has(owned.fields, path):
            out[manager] = owned
        elif manager in scale:
            del scale[manager]
            out[manager] = owned
        else:
            fields = fieldset.difference(owned.fields, fieldset.path_set(path))
            if fields:
                out[manager] = Owned(fields, owned.api_version, owned.applied)
    for manager, owned in scale.items():
        if fieldset.has(owned.fields, _REPLICAS_PATH):
            fields = fieldset.path_set(mapping.field_path(str(resource.group_version)) or ())
            out[manager] = Owned(fields, str(resource.group_version), owned.applied)
    return out
