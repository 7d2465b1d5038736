"""``kapi set`` (upstream: kubectl ``cmd/set``): image, env, resources, serviceaccount, selector and subject."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

from kapi.client.errors import StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.create_access import subjects
from kapi.kubectl.create_workloads import label_selector, quantities
from kapi.kubectl.creating import DRY_RUN
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag
from kapi.kubectl.info import Info
from kapi.kubectl.marks import resources_and_pairs
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.updates import Updates, changed, has_pods, pod_spec, read_objects
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix
from kapi.machinery.tree import Object

_VARIABLE = re.compile(r"([A-Za-z_.][-\w.]*)(=|-$)")
#: changes the spec of pods; returns what could not be done
ChangeSpec = Callable[[Object], list[str]]


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _selected(spec: Object, pattern: str) -> list[Object]:
    return [one for one in _containers(spec) if fnmatch.fnmatchcase(one["name"], pattern)]


def _check(factory: Factory, dry_run: str, resources: list[str]) -> list[BaseException]:
    """What is wrong with flags and arguments."""
    flags = factory.flags
    problems = []
    if flags.get_bool("all") and flags.get_string("selector"):
        problems.append("cannot set --all and --selector at the same time")
    if not resources and not flags.get_list("filename"):
        problems.append("one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if flags.get_bool("local") and dry_run == "server":
        problems.append("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    return [CommandError(problem) for problem in problems]


async def _update(
    factory: Factory, program: str, resources: list[str], operation: str, failed: str, change: ChangeSpec
) -> int:
    """Changes the pods of objects.  ``failed`` is before the server's message."""
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    printer = printer_for(flags, operation + dry_run_suffix(dry_run), typed=flags.get_bool("local"))
    result = await read_objects(factory, program, resources, whole=flags.get_bool("all"))
    infos = await result.infos()
    raise_errors(result.errors)
    updates = Updates(factory, flags.get_string("field-manager") or f"{program}-set", dry_run)
    errors: list[BaseException] = []
    for info in infos:
        problems: list[str] = []

        def change_object(obj: Object, info: Info = info, problems: list[str] = problems) -> None:
            problems += change(pod_spec(obj, info))

        try:
            wanted = changed(info, change_object)
        except CommandError as error:
            errors.append(CommandError(f"error: {_object_name(info)} {error}\n"))
            continue
        errors += [CommandError(problem) for problem in problems]
        try:
            if await updates.patch(info, wanted):
                factory.out.write(printer.print(info.object or {}))
        except StatusError as error:
            errors.append(CommandError(f"{failed} {error.message}"))
    raise_errors(errors)
    return 0


def _object_name(info: Info) -> str:
    return f"{info.mapping.name}/{info.name}"


async def _image(factory: Factory, program: str) -> int:
    dry_run = dry_run_strategy(factory.flags.get_string("dry-run"))
    resources, pairs = resources_and_pairs(factory.flags.arguments, "image")
    images = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    invalid = [pair for pair in pairs if "=" not in pair]
    if invalid:
        raise CommandError(f"invalid image format: {', '.join(invalid)}")
    problems = _check(factory, dry_run, resources)
    if not images:
        problems.append(CommandError("at least one image update is required"))
    elif len(images) > 1 and "*" in images:
        problems.append(
            CommandError(
                "all containers are already specified by *, but saw more than one container_name=container_image pairs"
            )
        )

    def change(spec: Object) -> list[str]:
        missing = []
        for name, image in images.items():
            found = [one for one in _containers(spec) if name in ("*", one["name"])]
            for one in found:
                one["image"] = image
            if not found:
                missing.append(f'error: unable to find container named "{name}"')
        return missing

    await _readable(factory, program, resources)
    raise_errors(problems)
    failed = "failed to patch image update to pod template:"
    return await _update(factory, program, resources, "image updated", failed, change)


async def _readable(factory: Factory, program: str, resources: list[str]) -> None:
    """Raises the errors of reading the objects, which come before those of other arguments."""
    result = await read_objects(factory, program, resources, whole=factory.flags.get_bool("all"))
    await result.infos()
    raise_errors(result.errors)


async def _resources(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    await _readable(factory, program, flags.arguments)
    if flags.get_bool("local") and dry_run == "server":
        raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    if flags.get_bool("all") and flags.get_string("selector"):
        raise CommandError("cannot set --all and --selector at the same time")
    if not flags.get_string("limits") and not flags.get_string("requests"):
        raise CommandError("you must specify an update to requests or limits (in the form of --requests/--limits)")
    amounts = {
        field: quantities(flags.get_string(field), "invalid argument syntax") for field in ("limits", "requests")
    }

    def change(spec: Object) -> list[str]:
        pattern = flags.get_string("containers")
        found = _selected(spec, pattern)
        for one in found:
            resources = one["resources"] = dict(one.get("resources") or {})
            for field, values in amounts.items():
                if values:
                    resources[field] = {**(resources.get(field) or {}), **values}
        return [] if found else [f"error: unable to find container named {pattern}"]

    failed = "failed to patch resources update to pod template"
    return await _update(factory, program, flags.arguments, "resource requirements updated", failed, change)


async def _service_account(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    if flags.get_bool("local") and dry_run == "server":
        raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    if not flags.arguments:
        raise CommandError("serviceaccount is required")
    *resources, name = flags.arguments

    def change(spec: Object) -> list[str]:
        spec["serviceAccountName"] = name
        return []

    return await _update(
        factory, program, resources, "serviceaccount updated", "failed to patch ServiceAccountName", change
    )


async def _env(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.get_bool("all") and flags.get_string("selector"):
        raise CommandError("cannot set --all and --selector at the same time")
    resources = [one for one in flags.arguments if not _VARIABLE.match(one)]
    pairs = [one for one in flags.arguments if _VARIABLE.match(one)]
    if flags.arguments[: len(resources)] != resources:
        raise CommandError(f"all resources must be specified before environment changes: {' '.join(flags.arguments)}")
    problems = _check(factory, dry_run_strategy(flags.get_string("dry-run")), resources)
    if problems:
        raise problems[-1]
    if flags.get_bool("list") and flags.get_string("output"):
        raise CommandError("--list and --output may not be specified together")
    keys = flags.get_list("keys")
    if keys and not flags.get_string("from"):
        raise CommandError("when specifying --keys, a configmap or secret must be provided with --from")
    given = [*flags.get_list("env"), *pairs]
    new = [dict(zip(("name", "value"), pair.split("=", 1), strict=True)) for pair in given if "=" in pair]
    gone = {pair.removesuffix("-") for pair in given if "=" not in pair}
    if any(one["name"] in gone for one in new):
        raise CommandError("can not both modify and remove the same environment variable in the same command")
    if flags.get_string("from"):
        new += await _env_from(factory, program, flags.get_string("from"), keys)
    variables: list[Object] = [{**one, "name": flags.get_string("prefix") + one["name"]} for one in new]

    def change(spec: Object) -> list[str]:
        for one in _selected(spec, flags.get_string("containers")):
            env = [*(one.get("env") or ())]
            for variable in variables:
                place = next((at for at, old in enumerate(env) if old["name"] == variable["name"]), len(env))
                if place < len(env) and not flags.get_bool("overwrite"):
                    raise CommandError(
                        f"'{variable['name']}' already has a value ({env[place].get('value', '')}), and --overwrite is false"
                    )
                env[place : place + 1] = [variable]
            one["env"] = [variable for variable in env if variable["name"] not in gone]
        return []

    if flags.get_bool("list"):
        return await _list_env(factory, program, resources, change)
    return await _update(
        factory, program, resources, "env updated", "failed to patch env update to pod template:", change
    )


async def _env_from(factory: Factory, program: str, source: str, keys: list[str]) -> list[Object]:
    """Variables that refer to the keys of a config map or secret."""
    result = await read_objects(factory, program, [] if factory.flags.get_bool("local") else [source], whole=False)
    infos = await result.infos()
    raise_errors(result.errors)
    found: list[Object] = []
    for info in infos:
        field = {"Secret": "secretKeyRef", "ConfigMap": "configMapKeyRef"}.get(info.mapping.kind)
        if field is None:
            raise CommandError("unsupported resource specified in --from")
        for key in sorted((info.object or {}).get("data") or {}):
            if not keys or key in keys:
                name = re.sub(r"[^A-Za-z0-9_]", "_", key).upper()
                if name != key:
                    factory.err.write(f"Warning: key {key} transferred to {name}\n")
                found.append({"name": name, "valueFrom": {field: {"name": info.name, "key": key}}})
    return found


async def _list_env(factory: Factory, program: str, resources: list[str], change: ChangeSpec) -> int:
    result = await read_objects(factory, program, resources, whole=factory.flags.get_bool("all"))
    async for info in result.visit():
        if not has_pods(info):
            continue
        spec = pod_spec(changed(info, lambda obj, info=info: _change(obj, info, change)), info)  # type: ignore[misc]
        for one in _selected(spec, factory.flags.get_string("containers")):
            factory.out.write(f"# {info.mapping.kind} {info.name}, container {one['name']}\n")
            for variable in one.get("env") or ():
                source = variable.get("valueFrom")
                if source is None:
                    factory.out.write(f"{variable['name']}={variable.get('value', '')}\n")
                else:
                    factory.out.write(f"# {variable['name']} from {_reference(source)}\n")
    raise_errors(result.errors)
    return 0


def _change(obj: Object, info: Info, change: ChangeSpec) -> None:
    change(pod_spec(obj, info))


def _reference(source: Object) -> str:
    if (found := source.get("configMapKeyRef")) is not None:
        return f"configmap {found['name']}, key {found['key']}"
    if (found := source.get("secretKeyRef")) is not None:
        return f"secret {found['name']}, key {found['key']}"
    if (found := source.get("fieldRef")) is not None:
        return f"field path {found['fieldPath']}"
    if (found := source.get("resourceFieldRef")) is not None:
        name = f"{found['containerName']}/" if found.get("containerName") else ""
        return f"resource field {name}{found['resource']}"
    return "invalid valueFrom"


async def _selector(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    if not flags.arguments:
        raise CommandError("one selector is required")
    *resources, text = flags.arguments
    wanted = label_selector(text)
    printer = printer_for(flags, f"selector updated{dry_run_suffix(dry_run)}", typed=flags.get_bool("local"))
    result = await read_objects(factory, program, resources, whole=flags.get_bool("all"))
    errors: list[BaseException] = []
    updates = Updates(factory, flags.get_string("field-manager") or f"{program}-set", dry_run)
    async for info in result.visit():

        def change(obj: Object, info: Info = info) -> None:
            if info.mapping.kind != "Service":
                raise CommandError("setting a selector is only supported for Services")
            if "matchExpressions" in wanted:
                shown = " ".join(
                    f"{{{one['key']} {one['operator']} [{' '.join(one.get('values', ()))}]}}"
                    for one in wanted["matchExpressions"]
                )
                raise CommandError(f"match expression [{shown}] not supported on this object")
            obj["spec"]["selector"] = wanted.get("matchLabels") or {}

        try:
            await updates.patch(info, changed(info, change))
            factory.out.write(printer.print(info.object or {}))
        except CommandError as error:
            errors.append(error)
        except StatusError as error:
            errors.append(CommandError(f"failed to patch selector update to {info.mapping.kind}: {error.message}"))
    raise_errors(errors + result.errors)
    return 0


async def _subject(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    await _readable(factory, program, flags.arguments)
    if not any(flags.get_list(name) for name in ("user", "group", "serviceaccount")):
        raise CommandError("you must specify at least one value of user, group or serviceaccount")
    found = subjects(factory)
    printer = printer_for(flags, f"subjects updated{dry_run_suffix(dry_run)}", typed=flags.get_bool("local"))
    result = await read_objects(factory, program, flags.arguments, whole=flags.get_bool("all"))
    errors: list[BaseException] = []
    updates = Updates(factory, flags.get_string("field-manager") or f"{program}-set", dry_run)
    async for info in result.visit():

        def change(obj: Object) -> None:
            obj["subjects"] = [
                *(obj.get("subjects") or ()),
                *(one for one in found if one not in (obj.get("subjects") or ())),
            ]

        try:
            if info.mapping.kind not in ("RoleBinding", "ClusterRoleBinding"):
                raise CommandError("setting subjects is only supported for RoleBinding/ClusterRoleBinding")
            if not await updates.patch(info, changed(info, change)):
                if not flags.get_bool("local"):
                    factory.out.write(f"{_object_name(info)} was not changed\n")
                continue
            factory.out.write(printer.print(info.object or {}))
        except CommandError as error:
            name = f"{info.text}\n" if flags.get_bool("local") else _object_name(info)
            errors.append(CommandError(f"error: {name} {error}\n"))
        except StatusError as error:
            errors.append(CommandError(f"failed to patch subjects to rolebinding: {error.message}"))
    raise_errors(errors + result.errors)
    return 0


_OBJECTS = (
    *FILENAME, *PRINT, Flag("all", "bool"), Flag("selector", short="l"), Flag("local", "bool"), DRY_RUN,
    Flag("field-manager"),
)  # fmt: skip
_CONTAINERS = Flag("containers", short="c", default="*")
HELP = Help("SUBCOMMAND", "Sets single parts of objects that are there.")
SUBCOMMANDS = (
    Command(
        "image", "Set the images of containers", _image, _OBJECTS,
        Help(
            "(-f FILENAME | TYPE NAME) CONTAINER=IMAGE ...", "",
            (
                ("Set an image", "set image deployment/web app=nginx:1.27"),
                ("Set all", "set image deployments --all *=nginx:1.27"),
            ),
        ),
    ),
    Command(
        "env", "Set environment variables of containers", _env,
        (
            *_OBJECTS, _CONTAINERS,
            Flag("env", "array", short="e", help="A variable, KEY=VALUE; may be repeated."),
            Flag("from", help="The config map or secret whose keys become variables."),
            Flag("keys", "list", help="Only these keys of --from."),
            Flag("prefix", help="Is put before the names of variables."),
            Flag("list", "bool", help="Show the variables."),
            Flag("overwrite", "bool", default=True),
        ),
        Help(
            "TYPE/NAME KEY=VALUE ... KEY- ...", "",
            (("Set one", "set env deployment/web COLOR=red"), ("Remove it", "set env deployment/web COLOR-")),
        ),
    ),
    Command(
        "resources", "Set what containers ask for and may use", _resources,
        (
            *_OBJECTS, _CONTAINERS,
            Flag("limits", help="What they may use, RESOURCE=QUANTITY, separated by commas."),
            Flag("requests", help="What they ask for, RESOURCE=QUANTITY, separated by commas."),
        ),
        Help(
            "(-f FILENAME | TYPE NAME) ([--limits=LIMITS] [--requests=REQUESTS])", "",
            (("Limit the memory", "set resources deployment/web --limits=memory=1Gi"),),
        ),
    ),
    Command(
        "serviceaccount", "Set the service account of pods", _service_account,
        _OBJECTS,
        Help("(-f FILENAME | TYPE NAME) SERVICE_ACCOUNT", "", (("Set it", "set serviceaccount deployment/web robot"),)),
        aliases=("sa",),
    ),
    Command(
        "selector", "Set the selector of services", _selector, _OBJECTS,
        Help("(-f FILENAME | TYPE NAME) EXPRESSIONS", "", (("Set it", "set selector service/web app=web"),)),
    ),
    Command(
        "subject", "Add users to role bindings", _subject,
        (
            *_OBJECTS,
            Flag("user", "array", help="A user who gets the role; may be repeated."),
            Flag("group", "array", help="A group that gets the role; may be repeated."),
            Flag("serviceaccount", "array", help="A service account that gets the role, NAMESPACE:NAME; may be repeated."),
        ),
        Help(
            "(-f FILENAME | TYPE NAME) [--user=NAME] [--group=NAME]", "",
            (("Add one", "set subject rolebinding/web --user=jane"),),
        ),
    ),
)  # fmt: skip
