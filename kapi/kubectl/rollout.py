"""``kapi rollout``: status, history, undo, restart, pause and resume.

Earlier revisions of a deployment are its replica sets; revisions of daemon sets and stateful sets are ControllerRevisions, whose
data is a patch.  Upstream: kubectl ``cmd/rollout``, ``polymorphichelpers``.
"""

from __future__ import annotations

import time

from kapi.client.errors import StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.describers.lines import Lines
from kapi.kubectl.describers.pods import template
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info, items_of
from kapi.kubectl.messages import CommandError, aggregate, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.kubectl.rollout_status import REVISION, follow
from kapi.kubectl.updates import Change, Updates, changed, has_pods, read_objects
from kapi.kubectl.visitor import Result
from kapi.kubectl.writing import LAST_APPLIED, dry_run_strategy, dry_run_suffix, field_manager
from kapi.machinery import tree
from kapi.machinery.golang import quote
from kapi.machinery.selectors import selector_text
from kapi.machinery.tree import Object, dig

_MANAGED = (
    "Warning: resource {name} was previously managed with '{program} apply'. Rolling back will not update the {annotation} "
    "annotation, which may cause unexpected behavior on future '{program} apply' operations. Consider using '{program} apply' "
    "with your previous configuration file instead.\n"
)
_RESTARTED = "kubectl.kubernetes.io/restartedAt"


def _check(factory: Factory) -> None:
    """Raises CommandError."""
    flags = factory.flags
    if not flags.arguments and not flags.get_list("filename"):
        raise CommandError("required resource not specified")


def _nothing(factory: Factory) -> int:
    factory.err.write(f"No resources found in {factory.namespace} namespace.\n")
    return 0


async def _change_all(factory: Factory, program: str, operation: str, same: str, change: dict[str, Change]) -> int:
    """Changes objects by their kinds; ``change[""]`` is for those that are not supported."""
    _check(factory)
    result = await read_objects(factory, program, factory.flags.arguments)
    infos = await result.infos()
    errors: list[BaseException] = []
    if not infos and not result.errors:
        return _nothing(factory)
    updates = Updates(factory, field_manager(factory.flags, "rollout"))
    for info in infos:
        mapping = info.mapping
        try:
            wanted = changed(info, change.get(mapping.kind, change[""]))
        except CommandError as error:
            resource = f"{mapping.name}.{mapping.group}" if mapping.group else mapping.name
            errors.append(CommandError(f'error: {resource} "{info.name}" {error}'))
            continue
        try:
            operated = operation if await updates.patch(info, wanted) else same
        except (CommandError, StatusError) as error:
            errors.append(CommandError(f"failed to patch: {getattr(error, 'message', error)}"))
            continue
        if not operated:
            errors.append(
                CommandError(
                    f"failed to create patch for {info.name}: if restart has already been triggered within the past second, "
                    "please wait before attempting to trigger another"
                )
            )
            continue
        factory.out.write(printer_for(factory.flags, operated, typed=True).print(info.object or {}))
    if not errors and not result.of_files:
        result.finish()
    if not result.errors:
        raise_errors(errors)
    aggregate(result.before(errors))
    return 0


def _unsupported(what: str) -> Change:
    def change(obj: Object) -> None:
        raise CommandError(f"{what} is not supported")

    return change


async def _pause(factory: Factory, program: str) -> int:
    def pause(obj: Object) -> None:
        if obj["spec"].get("paused"):
            raise CommandError("is already paused")
        obj["spec"]["paused"] = True

    changes = {"Deployment": pause, "": _unsupported("pausing")}
    return await _change_all(factory, program, "paused", "already paused", changes)


async def _resume(factory: Factory, program: str) -> int:
    def resume(obj: Object) -> None:
        if not obj["spec"].get("paused"):
            raise CommandError("is not paused")
        del obj["spec"]["paused"]

    changes = {"Deployment": resume, "": _unsupported("resuming")}
    return await _change_all(factory, program, "resumed", "already resumed", changes)


async def _restart(factory: Factory, program: str) -> int:
    def restart(obj: Object) -> None:
        if obj["spec"].get("paused"):
            raise CommandError("can't restart paused deployment (run rollout resume first)")
        metadata = obj["spec"]["template"].setdefault("metadata", {})
        offset = time.strftime("%z")
        now = time.strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}")
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _RESTARTED: now}

    changes: dict[str, Change] = dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet"), restart)
    return await _change_all(factory, program, "restarted", "", changes | {"": _unsupported("restarting")})


async def _of_revision(factory: Factory, program: str) -> tuple[int, Result]:
    """The revision that the flags name, 0 for any, and the objects.  Raises CommandError."""
    _check(factory)
    revision = factory.flags.get_int("revision")
    if revision < 0:
        raise CommandError(f"revision must be a positive integer: {revision}")
    return revision, await read_objects(factory, program, factory.flags.arguments)


async def _status(factory: Factory, program: str) -> int:
    revision, result = await _of_revision(factory, program)
    found = False
    async for info in result.visit():
        found = True
        with result.caught((CommandError,)):
            await follow(factory, info, revision)
    result.finish()
    return 0 if found else _nothing(factory)


async def _history(factory: Factory, program: str) -> int:
    revision, result = await _of_revision(factory, program)
    shown = printer_for(factory.flags, typed=True) if factory.flags.get_string("output") else None
    async for info in result.visit():
        with result.caught():
            if shown is not None:
                for one in await _shown(info, revision):
                    factory.out.write(shown.print(one))
                continue
            with_revision = f"with revision #{revision}" if revision else ""
            operation = f"{with_revision}\n{await history_text(factory, info, revision)}"
            factory.out.write(printer_for(factory.flags, operation, typed=True).print(info.object or {}))
    result.finish()
    return 0


async def _undo(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    _check(factory)
    result = await read_objects(factory, program, flags.arguments)
    async for info in result.visit():
        obj: Object = info.object or {}
        if LAST_APPLIED in (obj["metadata"].get("annotations") or {}):
            name = f"{info.mapping.name}/{info.name}"
            factory.err.write(_MANAGED.format(name=name, program=program, annotation=LAST_APPLIED))
        with result.caught():
            done = await rolled_back(factory, program, info, flags.get_int("to-revision"), dry_run)
            factory.out.write(printer_for(flags, done + dry_run_suffix(dry_run), typed=True).print(obj))
    result.finish()
    return 0


_OBJECTS = (*FILENAME, *shared("selector"))
_CHANGE = (*_OBJECTS, *PRINT, *shared("field-manager"))
HELP = Help("SUBCOMMAND", "Follows and changes how deployments, daemon sets and stateful sets bring new pods.")
SUBCOMMANDS = (
    Command(
        "status", "Follow a rollout until it is done", _status,
        Help("(TYPE NAME | TYPE/NAME)", "", ("Wait for a deployment", "rollout status deployment/web")),
        *_OBJECTS,
        Flag("watch", "bool", short="w", default=True, help="Wait until the rollout is done."),
        Flag("revision", "int", help="The revision that is meant; an error if another one is rolled out. 0 for any."),
        Flag("timeout", "duration", default=0.0, help="How long to wait, such as 1s, 2m or 3h; 0 has no end."),
    ),
    Command(
        "history", "Show former revisions", _history,
        Help(
            "(TYPE NAME | TYPE/NAME)", "",
            ("Show all", "rollout history deployment/web"), ("Show one", "rollout history deployment/web --revision=2"),
        ),
        *_OBJECTS, *PRINT, Flag("revision", "int", help="Show the pods of this revision."),
    ),
    Command(
        "undo", "Go back to a former revision", _undo,
        Help("(TYPE NAME | TYPE/NAME)", "", ("Go back by one", "rollout undo deployment/web")),
        *_OBJECTS, *PRINT, Flag("to-revision", "int", help="The revision; 0 for the one before this."), *shared("dry-run"),
    ),
    Command(
        "restart", "Replace all pods by new ones", _restart,
        Help("(TYPE NAME | TYPE/NAME)", "", ("Restart a deployment", "rollout restart deployment/web")),
        *_CHANGE,
    ),
    Command(
        "pause", "Bring no new pods for now", _pause,
        Help("(TYPE NAME | TYPE/NAME)", "", ("Pause a deployment", "rollout pause deployment/web")),
        *_CHANGE,
    ),
    Command(
        "resume", "Bring new pods again", _resume,
        Help("(TYPE NAME | TYPE/NAME)", "", ("Go on with a deployment", "rollout resume deployment/web")),
        *_CHANGE,
    ),
)  # fmt: skip

_CAUSE = "kubernetes.io/change-cause"
_HASH = "pod-template-hash"
#: annotations for which the deployment's values stay
_KEPT = frozenset(
    [
        LAST_APPLIED, REVISION, "deployment.kubernetes.io/revision-history", "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas", "deprecated.deployment.rollback.to",
    ]
)  # fmt: skip


async def _owned(info: Info, resource: str) -> list[Object]:
    """The objects that the workload controls, found by its selector."""
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
    """The revisions with their objects, the newest last; a replica set without a number has the revision 0."""
    if info.mapping.kind == "Deployment":
        sets = _newest_last(info, await _owned(info, "replicasets"))
        found = [(int((one["metadata"].get("annotations") or {}).get(REVISION) or 0), one) for one in sets]
    else:
        found = [(int(one["revision"]), one) for one in await _owned(info, "controllerrevisions")]
    return sorted(found, key=lambda pair: pair[0])


async def _shown(info: Info, revision: int) -> list[Object]:
    """A revision, or all for 0, as objects: replica sets, or the workload's old states.  Raises CommandError and StatusError."""
    from kapi.kubectl.local_patch import decoded

    _check_revisions(info)
    found = dict(await _revisions(info))
    if revision:
        if revision not in found:
            raise CommandError("unable to find the specified revision")
        found = {revision: found[revision]}
    if info.mapping.kind == "Deployment":
        return [decoded({"apiVersion": "apps/v1", "kind": "ReplicaSet", **one}) for one in found.values()]
    return [decoded(_applied(info, one)) for one in found.values()]


def _check_revisions(info: Info, what: str = "history", part: str = "history viewer") -> None:
    """Raises CommandError for a kind that has no revisions."""
    mapping = info.mapping
    if not has_pods(info):
        problem = f"no visitor method exists for {{{mapping.group} {mapping.kind}}}"
        raise CommandError(f"error retrieving {what} for {quote(mapping.group_kind)}, {problem}")
    if mapping.kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise CommandError(f"no {part} has been implemented for {quote(mapping.group_kind)}")
    if not info.name:
        kinds = {"Deployment": "deployment" if what == "history" else "Deployment", "StatefulSet": "Statefulset"}
        raise CommandError(
            f"failed to retrieve {kinds.get(mapping.kind, mapping.kind)} : resource name may not be empty"
        )


def _newest_last(info: Info, sets: list[Object]) -> list[Object]:
    """With the oldest replica set that has the deployment's pods behind the others; it stands for a revision of several."""
    wanted = _without_hash((info.object or {})["spec"]["template"])
    ordered = sorted(sets, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
    newest = next((one for one in ordered if _without_hash(one["spec"]["template"]) == wanted), None)
    return sets if newest is None else [*(one for one in sets if one is not newest), newest]


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
    _check_revisions(info)
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
    """Restores the pod template of a revision, 0 for the one before the newest.  Returns the text of the operation.

    Raises CommandError and StatusError.
    """
    kind = info.mapping.kind
    _check_revisions(info, "rollbacker", "rollbacker")
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
