"""Binding a pod to a node (upstream: ``registry/core/pod/storage`` BindingREST)."""

from __future__ import annotations

from collections.abc import Mapping

from kapi.admission.interface import CREATE, Attributes
from kapi.codecs.negotiation import output_media_type
from kapi.endpoints.body import decode_object, raw_body
from kapi.endpoints.encoding import respond_tree
from kapi.endpoints.options import write_options
from kapi.endpoints.scope import RequestScope
from kapi.machinery import status
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry.direct import modify
from kapi.registry.resource_store import ResourceStore, check_name
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo
from kapi.resources.shared.features import enabled
from kapi.schema.builtin import type_of

BINDING = GroupVersionKind("", "v1", "Binding")
_PODS = GroupResource("", "pods")
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Binding:
    """POST of ``pods/NAME/binding``, and of the older ``bindings``, whose metadata name the pod."""

    def __init__(self, pods: ResourceStore) -> None:
        self._pods = pods

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info = ctx.info
        assert info is not None and ctx.user is not None
        media = output_media_type(ctx, "create", scope.subresource is not None)
        data = raw_body(ctx)
        options = write_options(ctx, "CreateOptions")
        binding = decode_object(ctx, data, BINDING, type_of(BINDING), options.field_validation)
        if ctx.audit is not None:
            ctx.audit.request_object(binding)
        metadata = binding.setdefault("metadata", {})
        meta.ensure_namespace(binding, info.namespace, scope.gvr)
        name = info.name or metadata.get("name", "")  # admission may change that of the older resource
        ctx.warn(meta.dedup_owner_references(binding, after_admission=False))
        attributes = Attributes(
            CREATE, BINDING, scope.gvr, info.namespace, name, binding, None, ctx.user,
            subresource=scope.subresource.name if scope.subresource else "", options=options.tree,
            dry_run=options.dry_run, warnings=ctx.warnings, annotations=ctx.annotations,
        )  # fmt: skip
        await self._pods.admission.admit(attributes)
        binding = attributes.obj or {}
        metadata = binding.get("metadata") or {}
        name = metadata.get("name", "")
        if info.name and name != info.name:
            raise status.bad_request("name in URL does not match name in Binding object")
        target = binding.get("target") or {}
        _check_target(target)
        await self._pods.admission.validate(attributes)
        if not name:
            raise status.bad_request("Name parameter required.")
        check_name(name)
        if scope.subresource is None:  # upstream ignores the uid in the older resource
            metadata = {key: value for key, value in metadata.items() if key != "uid"}
        await self._assign(ctx.user, info.namespace, name, metadata, target["name"], options.dry_run)
        return respond_tree(ctx, 201, SUCCESS, media)

    async def _assign(
        self, user: UserInfo, namespace: str, name: str, metadata: Object, node: str, dry_run: bool
    ) -> None:
        now = self._pods.environment.now()

        def change(pod: Object) -> None:
            meta.check_uid(metadata.get("uid", ""), pod, _PODS, namespace, name, dry_run)
            wanted, version = metadata.get("resourceVersion", ""), pod["metadata"]["resourceVersion"]
            if wanted and wanted != version:
                raise status.conflict(
                    _PODS,
                    name,
                    f"StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, "
                    f"AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {wanted}, "
                    f"ResourceVersion in object meta: {version}",
                )
            assign(pod, metadata, node, now, self._pods.environment.features)

        await modify(self._pods, user, namespace, name, change, dry_run=dry_run)


def _check_target(target: Object) -> None:
    """Raises a plain error (500), as upstream does."""
    kind = target.get("kind", "")
    problems = []
    if kind not in ("", "Node"):
        problems.append(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        raise status.generic(aggregate(problems))


def assign(pod: Object, metadata: Object, node: str, now: str, features: Mapping[str, bool]) -> None:
    """Gives the pod its node, in place.  Raises Conflict when it has one or must not get one yet."""
    name, spec = pod["metadata"]["name"], pod["spec"]

    def refuse(why: str) -> status.StatusError:
        return status.conflict(GroupResource("", "pods/binding"), name, why)

    if pod["metadata"].get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise refuse(f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    for field in ("annotations", "labels") if enabled(features, "PodTopologyLabelsAdmission") else ("annotations",):
        if metadata.get(field):
            pod["metadata"].setdefault(field, {}).update(metadata[field])
    state = pod.setdefault("status", {})
    if enabled(features, "ClearingNominatedNodeNameAfterBinding"):
        state.pop("nominatedNodeName", None)  # the scheduler's nomination ends with the binding
    set_condition(state, {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})


def set_condition(state: Object, condition: Object) -> None:
    """Adds a condition or replaces the one of its type."""
    conditions = state.setdefault("conditions", [])
    for position, found in enumerate(conditions):
        if found["type"] == condition["type"]:
            if found["status"] == condition["status"]:
                condition["lastTransitionTime"] = found.get("lastTransitionTime")
            conditions[position] = condition
            return
    conditions.append(condition)
