"""``kapi drain``: evicts the pods of nodes before maintenance (upstream: kubectl ``cmd/drain``, ``pkg/drain``).

``cordon`` is its first step, ``uncordon`` the reverse.
"""

from __future__ import annotations

import time

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from kapi.client.discovery import APIResource
from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Command, Help
from kapi.kubectl.commands import ENTRIES
from kapi.kubectl.describers.kinds import Reader
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import CHUNK_SIZE, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import Aggregate, CommandError, aggregate
from kapi.kubectl.printers.name import NamePrinter
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix
from kapi.machinery.golang import duration_text, quote
from kapi.machinery.selectors import SelectorError, parse_labels
from kapi.machinery.status import NotFound, TooManyRequests
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object, dig

CORDON = shared("selector dry-run")
FLAGS = (
    *CORDON,
    *shared("force grace-period timeout chunk-size"),
    Flag("ignore-daemonsets", "bool", help="Leave the pods of DaemonSets where they are."),
    Flag("delete-emptydir-data", "bool", help="Go on though pods have data in emptyDir volumes, which is lost."),
    Flag("pod-selector", help="Only pods with these labels."),
    Flag(
        "disable-eviction", "bool", help="Delete pods instead of evicting them: PodDisruptionBudgets do not count then."
    ),
    Flag(
        "skip-wait-for-delete-timeout",
        "int",
        help="Do not wait for pods that have been in deletion for more seconds than this.",
    ),
)
POLL_SECONDS = 1.0  # between looks whether a pod is gone
RETRY_SECONDS = 5.0  # after an eviction that a disruption budget forbids
_MIRROR = "kubernetes.io/config.mirror"
HELP = Help(
    "NODE",
    "Marks nodes as unschedulable, then evicts their pods.",
    ("Empty a node", "drain worker-1 --ignore-daemonsets"),
)


async def run(factory: Factory, program: str) -> int:
    nodes, dry_run = await cordon(factory, program, "drain", desired=True)
    fatal: list[BaseException] = []
    pending: list[str] = []
    for info in nodes:
        try:
            await _drain(factory, info.name, dry_run)
        except (Aggregate, CommandError, StatusError) as error:
            shown = _text(error)
            factory.err.write(
                f'error: unable to drain node "{info.name}" due to error: {shown}, continuing command...\n'
            )
            fatal.append(error)
            pending.append(info.name)
            continue
        factory.out.write(NamePrinter(f"drained{dry_run_suffix(dry_run)}", short=False).print(info.object or {}))
    if pending:
        factory.err.write("There are pending nodes to be drained:\n" + "".join(f" {name}\n" for name in pending))
    aggregate(fatal)
    return 0


def _text(error: BaseException) -> str:
    if isinstance(error, Aggregate):
        texts = list(dict.fromkeys(map(str, error.errors)))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return error.message if isinstance(error, StatusError) else str(error)


async def cordon(factory: Factory, program: str, command: str, *, desired: bool) -> tuple[list[Info], str]:
    """Makes the nodes of the command line schedulable or not.  Returns them, and the strategy of ``--dry-run``."""
    flags = factory.flags
    names, labels = flags.arguments, flags.get_string("selector")
    if not names and not flags.given("selector"):
        raise CommandError(f"USAGE: {command} NODE [flags]", usage=f"{program} {command}")
    if names and labels:
        raise CommandError("cannot specify both a node name and a --selector option", usage=f"{program} {command}")
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    factory.check_config()
    try:
        parse_labels(flags.get_string("pod-selector") if flags.has("pod-selector") else "")
    except SelectorError:
        raise CommandError("--pod-selector=<pod_selector> must be a valid label selector") from None
    builder = (
        Builder(factory, program).namespace(factory.namespace).labels(labels).single_resource_type().flatten().latest()
    )
    builder.chunks_of(flags.get_int("chunk-size") if flags.has("chunk-size") else CHUNK_SIZE)
    if labels:
        builder.resource_type_or_name(["nodes"], allow_empty_selector=False)
    result = await builder.resource_names("nodes", names).known().do()
    nodes = await result.all_or_first_error()
    for info in nodes:
        if info.mapping.name != "nodes" or info.mapping.group:
            found = f"{info.mapping.group}/{info.mapping.version}, Resource={info.mapping.name}"
            raise CommandError(f"error: expected resource of type node, got {quote(found)}")
    done, verb = ("cordoned", "cordon") if desired else ("uncordoned", "uncordon")
    for info in nodes:
        node = info.object or {}
        if bool(dig(node, "spec", "unschedulable")) == desired:
            factory.out.write(NamePrinter(f"already {done}{dry_run_suffix(dry_run)}", short=False).print(node))
            continue
        if dry_run != "client":
            try:
                patch = {"spec": {"unschedulable": True if desired else None}}
                await info.patch("strategic", patch, dryRun="All" if dry_run == "server" else None)
            except StatusError as error:
                factory.err.write(f'error: unable to {verb} node "{info.name}": {error.message}\n')
                continue
        factory.out.write(NamePrinter(f"{done}{dry_run_suffix(dry_run)}", short=False).print(node))
    return nodes, dry_run


async def _drain(factory: Factory, node: str, dry_run: str) -> None:
    """Raises Aggregate, CommandError and StatusError."""
    pods, warnings = await _selected(factory, node)
    if warnings:
        factory.err.write(f"Warning: {warnings}\n")
    if dry_run == "client":
        for pod in pods:
            factory.out.write(f"evicting pod {_place(pod)} (dry run)\n")
        return
    flags = factory.flags
    timeout = flags.get_duration("timeout")
    end = factory.reactor.seconds() + timeout if timeout else 0.0
    errors: list[BaseException] = []

    async def one(pod: Object) -> None:
        try:
            await (_delete if flags.get_bool("disable-eviction") else _evict)(factory, pod, dry_run, end)
        except (CommandError, StatusError) as error:
            errors.append(error)

    await gatherResults([Deferred.fromCoroutine(one(pod)) for pod in pods])
    if not errors:
        return
    left = (await _selected(factory, node))[0]
    if left:
        shown = _text(Aggregate(errors))
        factory.err.write(f'There are pending pods in node "{node}" when an error occurred: {shown}\n')
        factory.err.write("".join(f"pod/{pod['metadata']['name']}\n" for pod in left))
    aggregate(errors)


def _place(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def _selected(factory: Factory, node: str) -> tuple[list[Object], str]:
    """The pods of a node to remove, and a warning about them.  Raises Aggregate and StatusError."""
    flags = factory.flags
    read = Reader(factory, flags.get_int("chunk-size"))
    found = await read.all("v1", "", "pods", flags.get_string("pod-selector"), f"spec.nodeName={node}")
    selected: list[Object] = []
    problems: dict[str, list[str]] = {}
    warnings: dict[str, list[str]] = {}
    for pod in found:
        goes, problem, warning = await _judged(factory, read, pod)
        if problem:
            problems.setdefault(problem, []).append(_place(pod))
        elif warning:
            warnings.setdefault(warning, []).append(_place(pod))
        if goes and not problem:
            selected.append({"kind": "Pod", "apiVersion": "v1", **pod})
    aggregate([CommandError(f"cannot delete {text}: {', '.join(pods)}") for text, pods in problems.items()])
    return selected, "; ".join(f"{text}: {', '.join(pods)}" for text, pods in warnings.items())


def _left_behind(pod: Object, skip: int) -> bool:
    """Whether the pod should have ended more than ``skip`` seconds ago; 0 is never."""
    deleted = pod["metadata"].get("deletionTimestamp")
    return skip > 0 and bool(deleted) and int(time.time() - seconds_of(deleted)) > skip


async def _judged(factory: Factory, read: Reader, pod: Object) -> tuple[bool, str, str]:
    """Whether to remove a pod, the error that forbids it, and a warning."""
    flags, metadata = factory.flags, pod["metadata"]
    if _left_behind(pod, flags.get_int("skip-wait-for-delete-timeout")):
        return False, "", ""
    ended = dig(pod, "status", "phase") in ("Succeeded", "Failed")
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    warning = ""
    if owner is not None and (owner["apiVersion"], owner["kind"]) == ("apps/v1", "DaemonSet") and not ended:
        try:
            await read.get("apps/v1", metadata["namespace"], "daemonsets", owner["name"])
        except StatusError as error:
            if not (isinstance(error, NotFound) and flags.get_bool("force")):
                return False, error.message, ""
            warning = error.message
        else:
            if flags.get_bool("ignore-daemonsets"):
                return False, "", "ignoring DaemonSet-managed Pods"
            return False, "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)", ""
    if _MIRROR in (metadata.get("annotations") or {}):
        return False, "", ""
    if ended:
        return True, "", ""
    if any("emptyDir" in volume for volume in dig(pod, "spec", "volumes") or ()):
        if not flags.get_bool("delete-emptydir-data"):
            return False, "Pods with local storage (use --delete-emptydir-data to override)", ""
        warning = "deleting Pods with local storage"
    if owner is None:
        if not flags.get_bool("force"):
            return False, "Pods that declare no controller (use --force to override)", ""
        return True, "", "deleting Pods that declare no controller"
    return True, "", "" if owner is not None else warning


def _options(factory: Factory, dry_run: str) -> Object:
    grace = factory.flags.get_int("grace-period")
    return {
        **({"gracePeriodSeconds": grace} if grace >= 0 else {}),
        **({"dryRun": ["All"]} if dry_run == "server" else {}),
    }


def _pod_info(factory: Factory, pod: Object) -> Info:
    mapping = APIResource("", "v1", "pods", "Pod", True)
    return Info(factory.client("v1"), mapping, pod["metadata"]["namespace"], pod["metadata"]["name"])


async def _evict(factory: Factory, pod: Object, dry_run: str, end: float) -> None:
    """Raises CommandError."""
    metadata = pod["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    body["deleteOptions"] = _options(factory, dry_run)
    what = f'error when evicting pods/"{name}" -n "{namespace}"'
    info = _pod_info(factory, pod)
    while True:
        factory.out.write(f"evicting pod {namespace}/{name}{dry_run_suffix(dry_run)}\n")
        if end and factory.reactor.seconds() >= end:
            limit = duration_text(factory.flags.get_duration("timeout"))
            raise CommandError(f"{what}: global timeout reached: {limit}")
        try:
            await info.request(info.client.post().retries(0)).subresource("eviction").body(body).do()
            break
        except NotFound:
            return
        except TooManyRequests as error:
            factory.err.write(f"{what} (will retry after {duration_text(RETRY_SECONDS)}): {error.message}\n")
            await deferLater(factory.reactor, RETRY_SECONDS)
        except StatusError as error:
            raise CommandError(f"{what}: {error.message}") from None
    if dry_run != "server":
        await _gone(factory, info, pod, "evicted", end)


async def _delete(factory: Factory, pod: Object, dry_run: str, end: float) -> None:
    """Raises CommandError and StatusError."""
    info = _pod_info(factory, pod)
    try:
        await info.delete(_options(factory, dry_run))
    except NotFound:
        pass
    if dry_run != "server":
        await _gone(factory, info, pod, "deleted", end)


async def _current(info: Info) -> Object | None:
    try:
        found: Object = await info.request(info.client.get()).do()
        return found
    except NotFound:
        return None


async def _gone(factory: Factory, info: Info, pod: Object, verb: str, end: float) -> None:
    """Waits for the end of a pod, or until it is left behind.  Raises CommandError."""
    flags, clock = factory.flags, factory.reactor
    skip = flags.get_int("skip-wait-for-delete-timeout")
    while (now := await _current(info)) is not None and now["metadata"]["uid"] == pod["metadata"]["uid"]:
        if _left_behind(now, skip):
            factory.out.write(f"pod {quote(info.name)} has DeletionTimestamp older than {skip} seconds, skipping\n")
            return
        if end and clock.seconds() >= end:
            where = f'pod "{info.name}" in namespace "{info.namespace}"'
            raise CommandError(f"error when waiting for {where} to terminate: context deadline exceeded")
        await deferLater(clock, min(POLL_SECONDS, max(0.0, end - clock.seconds()) if end else POLL_SECONDS))
    factory.out.write(NamePrinter(verb, short=False).print(pod))


def _cordon(name: str, description: str, example: str, *, desired: bool) -> Command:
    async def run(factory: Factory, program: str) -> int:
        await cordon(factory, program, name, desired=desired)
        return 0

    help = Help("NODE", description, (example, f"{name} worker-1"))
    return Command(name, ENTRIES[name].summary, run, help, *CORDON)


NEIGHBOURS = {
    "cordon": _cordon("cordon", "Marks nodes as unschedulable.", "Keep new pods away from a node", desired=True),
    "uncordon": _cordon("uncordon", "Marks nodes as schedulable.", "Let pods come to a node again", desired=False),
}
