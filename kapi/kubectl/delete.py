"""``kapi delete`` (upstream: kubectl ``cmd/delete``): deletes objects and waits until they are gone."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder, selecting_builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, Flag, Flags, like, shared
from kapi.kubectl.info import Info, kind_text
from kapi.kubectl.messages import CommandError, aggregate, raise_errors
from kapi.kubectl.raw import check_raw, send_raw
from kapi.kubectl.visitor import Known, Result
from kapi.kubectl.waiting import wait_until_gone
from kapi.kubectl.writing import FLAGS as DELETE
from kapi.kubectl.writing import delete_options, dry_run_strategy, dry_run_suffix, propagation, with_source
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

FLAGS = (
    *FILENAME,
    *shared("output selector field-selector all all-namespaces ignore-not-found dry-run raw"),
    Flag("interactive", "bool", short="i", help="Ask before something is deleted."),
    *DELETE,
    Flag("now", "bool", help="Objects get one second to end."),
    like("wait", default=True),
)
_FORCED = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely.\n"
)
HELP = Help(
    "([-f FILENAME] | TYPE [(NAME | -l LABEL | --all)])",
    "Deletes objects, and waits until they are gone. A name that is used again meanwhile is another object: its UID tells.",
    ("Delete a pod", "delete pod web-0"),
    ("Delete what a file describes", "delete -f web.yaml"),
    ("Delete all pods and services with a label", "delete pods,services -l app=web"),
    ("Delete a deployment but keep its pods", "delete deployment web --cascade=orphan"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    factory.check_namespace()
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    policy = propagation(flags, factory.err)
    grace = flags.get_int("grace-period")
    if flags.get_bool("now"):
        if grace != -1:
            raise CommandError("--now and --grace-period cannot be specified together")
        grace = 1
    force = flags.get_bool("force")
    if grace == 0 and not force:
        grace = 1  # as kubectl: not without --force
    if force and grace < 0:
        grace = 0
    if force and grace > 0:
        raise CommandError("--force and --grace-period greater than 0 cannot be specified together")
    if flags.get_string("raw"):
        _check_output(flags)
        factory.err.write(_FORCED if force else "")
        if flags.get_bool("interactive"):
            raise CommandError("--interactive can not be used with --raw")
        check_raw(flags, "recursive", "output", optional_file=True)
        return await send_raw(factory, factory.client().delete())
    wait = flags.get_bool("wait") and not (force and not flags.given("wait"))
    ignore = (
        flags.get_bool("ignore-not-found")
        or (flags.get_bool("all") or flags.get_string("selector"))
        and not flags.given("ignore-not-found")
    )
    result = await _builder(factory, program).do()
    _check_output(flags)
    result.ignore_not_found = bool(ignore)
    if force:
        factory.err.write(_FORCED)
    if flags.get_bool("interactive"):
        result = Result(Known(await result.infos()), errors=result.errors)
        result.ignore_not_found = bool(ignore)
        raise_errors(result.errors)
        if not await _confirmed(factory, result):
            factory.out.write("deletion is cancelled\n")
            return 0
    options = delete_options(policy, grace, dry_run)
    return await _delete(factory, result, options, dry_run, force, wait and dry_run == "none")


def _check_output(flags: Flags) -> None:
    """Raises CommandError."""
    if flags.get_string("output") not in ("", "name"):
        raise CommandError(f"unexpected -o output mode: {flags.get_string('output')}. We only support '-o name'")


def _builder(factory: Factory, program: str) -> Builder:
    flags = factory.flags
    builder = selecting_builder(factory, program).select_all(flags.get_bool("all"))
    return builder.resource_type_or_name(flags.arguments, allow_empty_selector=False)


async def _delete(factory: Factory, result: Result, options: Object, dry_run: str, force: bool, wait: bool) -> int:
    errors = result.errors
    deleted: list[tuple[Info, str]] = []
    ignored, found = False, 0
    warn = bool(factory.flags.get_string("namespace")) and not factory.flags.get_bool("all-namespaces")
    async for info in result.visit():
        found += 1
        nowhere = info.mapping.namespaced and not info.namespace
        if (nowhere or not info.name) and dry_run != "client":
            why = "an empty namespace may not be set when a resource name is provided"
            if not info.name:
                why = "resource name may not be empty"
            errors.append(CommandError(f'error when deleting "{info.source}": {why}'))
            continue
        if warn and not info.mapping.namespaced:
            factory.err.write("Warning: deleting cluster-scoped resources, not scoped to the provided namespace\n")
            warn = False
        try:
            answer = None if dry_run == "client" else await info.delete(options)
        except NotFound as error:
            if not result.ignore_not_found:
                errors.append(with_source("deleting", info, error) if info.source else error)
            ignored |= result.ignore_not_found
            continue
        except StatusError as error:
            errors.append(with_source("deleting", info, error) if info.source else error)
            continue
        details = (answer or {}).get("details") or {}
        uid = details.get("uid") or ((answer or {}).get("metadata") or {}).get("uid") or ""
        deleted.append((info, uid))
        factory.out.write(_line(factory, info, dry_run, force))
    if not found and not errors:
        factory.out.write("No resources found\n")
    if wait and deleted:
        factory.out.flush()
        await wait_until_gone(factory, deleted, factory.flags.get_duration("timeout"))
    (aggregate if ignored else raise_errors)(errors)  # what is left of several errors is printed as several are
    return 0


async def _confirmed(factory: Factory, result: Result) -> bool:
    """Asks the user whether to delete the objects; it does not ask when there are none."""
    infos = await result.infos()
    if not infos:
        return True
    names = "".join(f"{info.text}\n" for info in infos)
    factory.out.write(f"You are about to delete the following {len(infos)} resource(s):\n{names}")
    factory.out.write("Do you want to continue? (y/N): ")
    factory.out.flush()
    return factory.stdin.readline().strip().lower() == "y"


def _line(factory: Factory, info: Info, dry_run: str, force: bool) -> str:
    kind = kind_text(info.mapping)
    if factory.flags.get_string("output") == "name":
        return f"{kind}/{info.name}\n"
    verb = "force deleted" if force else "deleted"
    where = f" from {info.namespace} namespace" if info.mapping.namespaced else ""
    return f'{kind} "{info.name}" {verb}{where}{dry_run_suffix(dry_run)}\n'
