"""Eviction: a delete that a PodDisruptionBudget may prevent (upstream: ``registry/core/pod/storage/eviction.go``)."""

from __future__ import annotations

from kapi.admission.interface import CREATE, Attributes
from kapi.codecs.negotiation import input_media_type, output_media_type
from kapi.endpoints.body import raw_body, read_any
from kapi.endpoints.encoding import respond_tree
from kapi.endpoints.options import check_delete_options, write_options
from kapi.endpoints.pods.binding import SUCCESS, set_condition
from kapi.endpoints.scope import RequestScope, request_name
from kapi.machinery import status, tree
from kapi.machinery.field import Path, invalid
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.selectors import from_label_selector
from kapi.machinery.tree import Object
from kapi.registry import metadata as meta
from kapi.registry import read
from kapi.registry.delete import check_preconditions, delete
from kapi.registry.direct import modify
from kapi.registry.resource_store import ResourceStore
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo
from kapi.runtime.interface import Client
from kapi.schema.builtin import type_of
from kapi.schema.decode import decode

EVICTION = GroupVersionKind("policy", "v1", "Eviction")
POD = GroupResource("", "Pod")  # upstream's conflicts name the kind
_BREAKING = "ignoreStoreReadErrorWithClusterBreakingPotential"
_NOT_HERE = "can not be set for pod eviction, try after removing the option"
_MAX_DISRUPTED = 2000
_MAX_ATTEMPTS = 20
_TOO_MANY = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class Eviction:
    """POST of ``pods/NAME/eviction``."""

    def __init__(self, pods: ResourceStore, client: Client) -> None:
        self._pods = pods
        self._budgets = client.resource("policy", "poddisruptionbudgets")

    async def __call__(self, ctx: RequestContext, scope: RequestScope) -> Response:
        info, name = ctx.info, request_name(ctx)
        assert info is not None and ctx.user is not None
        media = output_media_type(ctx, "create")
        data = raw_body(ctx)
        options = write_options(ctx, "CreateOptions")
        eviction = _decoded(ctx, data, options.field_validation)
        if ctx.audit is not None:
            ctx.audit.request_object(eviction)
        meta.ensure_namespace(eviction, info.namespace, scope.gvr)
        ctx.warn(meta.dedup_owner_references(eviction, after_admission=False))
        attributes = Attributes(
            CREATE, EVICTION, scope.gvr, info.namespace, name, eviction, None, ctx.user, subresource="eviction",
            options=options.tree, dry_run=options.dry_run, warnings=ctx.warnings, annotations=ctx.annotations,
        )  # fmt: skip
        await self._pods.admission.admit(attributes)
        eviction = attributes.obj or {}
        if (eviction.get("metadata") or {}).get("name", "") != name:
            raise status.bad_request("name in URL does not match name in Eviction object")
        delete_options: Object = dict(eviction.get("deleteOptions") or {})
        if delete_options.get(_BREAKING):
            cause = invalid(Path("deleteOptions").child(_BREAKING), True, _NOT_HERE)
            raise status.invalid(EVICTION.group_kind, name, [cause])
        asked, wanted = options.tree.get("dryRun") or [], delete_options.get("dryRun") or []
        if asked and wanted and asked != wanted:
            shown = f"[{' '.join(asked)}] and [{' '.join(wanted)}]"
            raise status.generic(f"Non-matching dry-run options in request and content: {shown}")
        if options.dry_run:
            delete_options["dryRun"] = ["All"]
        dry_run = bool(delete_options.get("dryRun"))
        await self._pods.admission.validate(attributes)
        await self._evict(ctx, scope, name, delete_options, dry_run)
        return respond_tree(ctx, 201, SUCCESS, media)

    async def _evict(self, ctx: RequestContext, scope: RequestScope, name: str, options: Object, dry_run: bool) -> None:
        """Deletes the pod if its budget allows it.

        A pod that is deleted without the budget must not have changed since it was judged, for example by becoming ready.
        """
        info = ctx.info
        assert info is not None
        versioned = (options.get("preconditions") or {}).get("resourceVersion") is not None
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            pod = (await read.get(self._pods, info.namespace, name)).object
            if not _ignores_budgets(pod):
                break
            exact = versioned or _is_over(pod)
            try:
                await self._delete(ctx, scope, name, options if exact else _pinned(options, pod), dry_run)
                return
            except status.Conflict:
                if versioned or attempt == _MAX_ATTEMPTS:
                    raise
        budgets = self._matching(pod)
        if len(budgets) > 1:
            raise status.generic(_SEVERAL)
        if not budgets or not _free_to_go(pod, budgets[0]):
            if budgets:
                await self._take(budgets[0], name, dry_run)
            await self._delete(ctx, scope, name, options, dry_run)
            return
        try:  # the client's own resourceVersion is replaced, as upstream
            await self._delete(ctx, scope, name, _pinned(options, pod), dry_run)
        except status.Conflict:
            if versioned:
                raise
            raise _still_processed(budgets[0]["metadata"]["name"]) from None

    async def _delete(
        self, ctx: RequestContext, scope: RequestScope, name: str, options: Object, dry_run: bool
    ) -> None:
        assert ctx.info is not None and ctx.user is not None
        if not dry_run:
            options = await self._mark(ctx.user, ctx.info.namespace, name, options)
        check_delete_options(options)
        op = scope.operation(ctx, name, {"kind": "DeleteOptions", **options}, "", dry_run)
        op.subresource, op.admitted = None, True
        await delete(self._pods, op)

    def _matching(self, pod: Object) -> list[Object]:
        """The budgets whose selector matches the pod; one without a selector matches none, an empty one all."""
        labels = pod["metadata"].get("labels") or {}
        found = []
        for budget in self._budgets.lister.list(pod["metadata"]["namespace"]):
            selector = from_label_selector(budget["spec"].get("selector"))
            if selector is not None and selector.matches(labels):
                found.append(budget)
        return found

    async def _take(self, budget: Object, pod: str, dry_run: bool) -> None:
        """Uses up one allowed disruption.  Raises TooManyRequests when there is none."""
        metadata = budget["metadata"]
        for _ in range(_MAX_ATTEMPTS):
            changed = decrement(budget, pod, self._pods.environment.now())
            if dry_run:
                return
            try:
                await self._budgets.update(changed, metadata["namespace"], "status")
                return
            except status.Conflict:
                budget = await self._budgets.get(metadata["name"], metadata["namespace"])
        raise status.timeout(f'couldn\'t update PodDisruptionBudget "{metadata["name"]}" due to conflicts', 10)

    async def _mark(self, user: UserInfo, namespace: str, name: str, options: Object) -> Object:
        """Sets a condition that tells why the pod is deleted; returns the delete options, with the pod's new resourceVersion.

        Raises Conflict when the pod does not satisfy the preconditions of the options.
        """
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._pods.environment.now(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }

        def change(pod: Object) -> None:
            check_preconditions(POD, options, pod)
            set_condition(pod.setdefault("status", {}), dict(condition))

        marked = await modify(self._pods, user, namespace, name, change)
        wanted = options.get("preconditions") or {}
        if wanted.get("resourceVersion") is None:
            return options
        version = marked.obj["metadata"]["resourceVersion"]
        return {**options, "preconditions": {**wanted, "resourceVersion": version}}


def _decoded(ctx: RequestContext, data: bytes, validation: str) -> Object:
    """The Eviction of a request, of policy/v1 or of policy/v1beta1, which has the same fields."""
    body = read_any(data, input_media_type(ctx), EVICTION)
    if body.get("apiVersion") == "policy/v1beta1":
        body["apiVersion"] = str(EVICTION.group_version)
    return decode(body, EVICTION, type_of(EVICTION), validation, ctx.warn)


def _ignores_budgets(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _is_over(pod: Object) -> bool:
    """Whether the pod has ended or is being deleted, which no later change undoes."""
    pending = (pod.get("status") or {}).get("phase") == "Pending"
    return not pending or bool(pod["metadata"].get("deletionTimestamp"))


def _pinned(options: Object, pod: Object) -> Object:
    """The delete options with this very revision of the pod as a precondition."""
    preconditions = {**(options.get("preconditions") or {}), "resourceVersion": pod["metadata"]["resourceVersion"]}
    return {**options, "preconditions": preconditions}


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _free_to_go(pod: Object, budget: Object) -> bool:
    """Whether the pod is unready and may be evicted without using the budget."""
    if _ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget.get("status") or {}
    desired = state.get("desiredHealthy", 0)
    return bool(desired > 0 and state.get("currentHealthy", 0) >= desired)


def _too_many(why: str, retry_after: int = 0) -> status.StatusError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return status.TooManyRequests(_TOO_MANY, details=details)


def _still_processed(budget: str) -> status.StatusError:
    return _too_many(f"The disruption budget {budget} is still being processed by the server.", 10)


def _why_none(name: str, state: Object) -> str:
    """The reason why a budget allows no disruption, if its controller has reported one."""
    conditions = [entry for entry in state.get("conditions") or () if entry.get("type") == "DisruptionAllowed"]
    refused = conditions[0] if conditions and conditions[0].get("status") == "False" else {}
    reason, message = refused.get("reason", ""), refused.get("message", "")
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    if message and reason == "SyncFailed":
        return f"{refused} because it failed sync: {message}"
    current, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{refused} ({reason}): {message}" if message else refused


def decrement(budget: Object, pod: str, now: str) -> Object:
    """A copy of the budget with one disruption less.  Raises TooManyRequests and Forbidden."""
    changed: Object = tree.copy(budget)
    metadata, state = changed["metadata"], changed.setdefault("status", {})
    name = metadata["name"]
    if state.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _still_processed(name)
    allowed = state.get("disruptionsAllowed", 0)
    resource = "poddisruptionbudget"
    if allowed < 0:
        raise status.Forbidden(
            f'{resource} "{name}" is forbidden: pdb disruptions allowed is negative',
            details={"name": name, "kind": resource},
        )
    if len(state.get("disruptedPods") or {}) > _MAX_DISRUPTED:
        raise status.Forbidden(
            f'{resource} "{name}" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB '
            "controller",
            details={"name": name, "kind": resource},
        )
    if allowed == 0:
        raise _too_many(_why_none(name, state))
    state["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": state.get("observedGeneration", 0),
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        }
        set_condition(state, condition)
    state.setdefault("disruptedPods", {})[pod] = now
    return changed
