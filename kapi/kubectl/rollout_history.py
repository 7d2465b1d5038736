"""Former revisions of workloads, and the way back to them (upstream: kubectl ``polymorphichelpers``).

Those of a deployment are its replica sets, those of daemon sets and stateful sets are ControllerRevisions, whose data is a patch.
"""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl.describers.lines import Lines
from kapi.kubectl.describers.pods import template
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info, items_of
from kapi.kubectl.messages import CommandError
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.kubectl.rollout_status import REVISION
from kapi.kubectl.writing import LAST_APPLIED
from kapi.machinery import tree
from kapi.machinery.golang import quote
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object, dig

_CAUSE = "kubernetes.io/change-cause"
_HASH = "pod-template-hash"
#: annotations that stay those of the deployment
_KEPT = frozenset(
    [
        LAST_APPLIED, REVISION, "deployment.kubernetes.io/revision-history", "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas", "deprecated.deployment.rollback.to",
    ]
)  # fmt: skip


def _kind(info: Info) -> str:
    return f"{info.mapping.kind}.{info.mapping.group}" if info.mapping.group else info.mapping.kind


async def _owned(info: Info, resource: str) -> list[Object]:
    """The objects that the workload controls, as its selector finds them."""
    obj = info.object or {}
    request = info.client.get().namespace(info.namespace).resource(resource)
    page = await request.param("labelSelector", selector_text(dig(obj, "spec", "selector"))).do()
    uid = obj["metadata"]["uid"]
    return [
        one
        for one in items_of(page)
        if any(ref.get("controller") and ref["uid"] == uid for ref in one["metadata"].get("ownerReferences") or ())
    ]


async def _revisions(info: Info) -> list[tuple[int, Object]]:
    """The revisions with the objects that stand for them, the newest last; 0 is that of a replica set without a number."""
    if info.mapping.kind == "Deployment":
        sets = await _owned(info, "replicasets")
        found = [(int((one["metadata"].get("annotations") or {}).get(REVISION) or 0), one) for one in sets]
    else:
        found = [(int(one["revision"]), one) for one in await _owned(info, "controllerrevisions")]
    return sorted(found, key=lambda pair: pair[0])


def _template_text(found: Object) -> str:
    out = Lines()
    template("spec.template")(out, found)
    return out.tabbed()


def _applied(info: Info, revision: Object) -> Object:
    """The workload with the pods of a ControllerRevision, whose data replaces the template."""
    found: Object = tree.copy(info.object or {})
    patched = dict(dig(revision, "data", "spec", "template") or {})
    patched.pop("$patch", None)
    found["spec"]["template"] = patched
    return found


async def history_text(factory: Factory, info: Info, revision: int) -> str:
    """The revisions as a table; with ``revision`` its pods.  Raises CommandError and StatusError."""
    if info.mapping.kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise CommandError(f"no history viewer has been implemented for {quote(_kind(info))}")
    revisions = await _revisions(info)
    if not revisions:
        return "No rollout history found."
    if revision:
        found = dict(revisions).get(revision)
        if found is None:
            raise CommandError("unable to find the specified revision")
        if info.mapping.kind != "Deployment":
            return _template_text(_applied(info, found))
        if cause := found["metadata"]["annotations"].get(_CAUSE):
            metadata = found["spec"]["template"].setdefault("metadata", {})
            metadata["annotations"] = {**(metadata.get("annotations") or {}), _CAUSE: cause}
        return _template_text(found)
    writer = TabWriter(0, 2)
    writer.row(["REVISION", "CHANGE-CAUSE"])
    for number, one in dict(revisions).items():
        annotations = one["metadata"].get("annotations") or {}
        writer.row([str(number), annotations.get(_CAUSE) or "<none>"])
    return writer.flush()


def _not_found(revision: int) -> CommandError:
    return CommandError(f"unable to find specified revision {revision} in history")


async def rolled_back(factory: Factory, program: str, info: Info, revision: int, dry_run: str) -> str:
    """Brings the pods of a revision back, 0 for the one before the newest.  Returns what was done.

    Raises CommandError and StatusError.
    """
    kind = info.mapping.kind
    if kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise CommandError(f"no rollbacker has been implemented for {quote(_kind(info))}")
    if revision < 0:
        raise _not_found(revision)
    revisions = await _revisions(info)
    if not revision and len(revisions) < 2:
        if kind == "Deployment":
            raise CommandError(f"no rollout history found for deployment {quote(info.name)}")
        raise CommandError("no last revision to roll back to")
    found = dict(revisions).get(revision) if revision else revisions[-2][1]
    if found is None:
        raise _not_found(revision)
    target = found if kind == "Deployment" else _applied(info, found)
    if dry_run == "client":
        return ("" if kind == "Deployment" else "will roll back to ") + _template_text(target)
    obj = info.object or {}
    if kind == "Deployment" and obj["spec"].get("paused"):
        raise CommandError(
            f"you cannot rollback a paused deployment; resume it first with '{program} rollout resume' and try again"
        )
    wanted = _without_hash(target["spec"]["template"])
    if wanted == _without_hash(obj["spec"]["template"]):
        return f"skipped rollback (current template already matches revision {revision})"
    options = {"dryRun": "All" if dry_run == "server" else None}
    before = info.object
    try:
        if kind == "Deployment":
            await info.patch("json", _deployment_patch(obj, found, wanted), **options)
        else:
            await info.patch("strategic", found["data"], **options)
    except StatusError as error:
        raise CommandError(f"failed restoring revision {revision}: {error.message}") from None
    info.object = before
    return "rolled back"


def _without_hash(found: Object) -> Object:
    metadata = dict(found.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    metadata = {key: value for key, value in metadata.items() if value} | ({"labels": labels} if labels else {})
    return {**found, "metadata": metadata}


def _deployment_patch(obj: Object, found: Object, wanted: Object) -> list[Object]:
    annotations = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if key in _KEPT} | {
        key: value for key, value in (found["metadata"].get("annotations") or {}).items() if key not in _KEPT
    }
    return [
        {"op": "replace", "path": "/spec/template", "value": wanted},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]
