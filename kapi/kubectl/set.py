"""``kapi set`` (upstream: kubectl ``cmd/set``): image, env, resources, serviceaccount, selector and subject."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.create_access import subjects
from kapi.kubectl.create_workloads import label_selector, quantities
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, FILES_BELOW, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.marks import resources_and_pairs
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.set_env import ENV
from kapi.kubectl.updates import (
    CONTAINERS,
    OBJECTS,
    Updates,
    changed,
    check,
    containers_of,
    object_name,
    read_objects,
    selected,
    update_pods,
)
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix, field_manager, recorded
from kapi.machinery.tree import Object


async def _image(factory: Factory, program: str) -> int:
    dry_run = dry_run_strategy(factory.flags.get_string("dry-run"))
    resources, pairs = resources_and_pairs(factory.flags.arguments, "image")
    images = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    invalid = [pair for pair in pairs if "=" not in pair]
    if invalid:
        raise CommandError(f"invalid image format: {', '.join(invalid)}")
    problems = check(factory, dry_run, resources)
    if not images:
        problems.append(CommandError("at least one image update is required"))
    elif len(images) > 1 and "*" in images:
        problems.append(
            CommandError(
                "all containers are already specified by *, but saw more than one container_name=container_image pairs"
            )
        )

    def change(info: Info, spec: Object) -> list[str]:
        missing = []
        for name, image in images.items():
            found = [one for one in containers_of(spec) if name in ("*", one["name"])]
            for one in found:
                one["image"] = image
            if not found:
                missing.append(f'error: unable to find container named "{name}"')
        return missing

    await _readable(factory, program, resources)
    raise_errors(problems)
    failed = "failed to patch image update to pod template:"
    return await update_pods(factory, program, resources, "image updated", failed, change)


async def _readable(factory: Factory, program: str, resources: list[str]) -> None:
    """Raises the errors of the output and of reading the objects, which come before those of other arguments."""
    printer_for(factory.flags)
    result = await read_objects(factory, program, resources, whole=factory.flags.get_bool("all"))
    await result.all()


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

    def change(info: Info, spec: Object) -> list[str]:
        pattern = flags.get_string("containers")
        found = selected(spec, pattern)
        for one in found:
            resources = one["resources"] = dict(one.get("resources") or {})
            for field, values in amounts.items():
                if values:
                    resources[field] = {**(resources.get(field) or {}), **values}
        return [] if found else [f"error: unable to find container named {pattern}"]

    failed = "failed to patch resources update to pod template"
    return await update_pods(factory, program, flags.arguments, "resource requirements updated", failed, change)


async def _service_account(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    if flags.get_bool("local") and dry_run == "server":
        raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    if not flags.arguments:
        raise CommandError("serviceaccount is required")
    *resources, name = flags.arguments
    if flags.get_bool("local"):
        resources = []  # as kubectl, which then takes only files

    def change(info: Info, spec: Object) -> list[str]:
        spec["serviceAccountName"] = name
        return []

    failed = "failed to patch ServiceAccountName"
    return await update_pods(factory, program, resources, "serviceaccount updated", failed, change, also_unchanged=True)


async def _selector(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    if not flags.arguments:
        raise CommandError("one selector is required")
    *resources, text = flags.arguments
    wanted = label_selector(text)
    printer = printer_for(flags, f"selector updated{dry_run_suffix(dry_run)}", typed=True)
    result = await read_objects(factory, program, resources, whole=flags.get_bool("all"))
    updates = Updates(factory, field_manager(flags, "set"), dry_run)
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
            if version := flags.get_string("resource-version"):
                obj["metadata"]["resourceVersion"] = version

        if flags.get_string("resource-version"):  # so that it is in the patch, whatever it is
            (info.object or {})["metadata"].pop("resourceVersion", None)
        with result.caught():
            await updates.patch(info, recorded(factory, program, changed(info, change)))
            factory.out.write(printer.print(info.object or {}))
    result.finish()
    return 0


async def _subject(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    await _readable(factory, program, flags.arguments)
    if flags.get_bool("local") and dry_run == "server":
        raise CommandError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    if not any(flags.get_list(name) for name in ("user", "group", "serviceaccount")):
        raise CommandError("you must specify at least one value of user, group or serviceaccount")
    found = subjects(factory)
    printer = printer_for(flags, f"subjects updated{dry_run_suffix(dry_run)}", typed=True)
    result = await read_objects(factory, program, flags.arguments, whole=flags.get_bool("all"))
    errors: list[BaseException] = []
    updates = Updates(factory, field_manager(flags, "set"), dry_run)
    async for info in result.visit():

        def change(obj: Object) -> None:
            obj["subjects"] = [
                *(obj.get("subjects") or ()),
                *(one for one in found if one not in (obj.get("subjects") or ())),
            ]

        try:
            if info.mapping.kind not in ("RoleBinding", "ClusterRoleBinding"):
                raise CommandError("setting subjects is only supported for RoleBinding/ClusterRoleBinding")
            if await updates.patch(info, changed(info, change)):
                factory.out.write(printer.print(info.object or {}))
        except CommandError as error:
            errors.append(CommandError(f"error: {object_name(factory, info)} {error}\n"))
        except StatusError as error:
            errors.append(CommandError(f"failed to patch subjects to rolebinding: {error.message}"))
    raise_errors(errors + result.errors)
    return 0


#: of what does not select by labels
_OWN = tuple(flag for flag in OBJECTS if flag not in FILENAME and flag.name != "selector")
HELP = Help("SUBCOMMAND", "Sets single parts of objects that are there.")
SUBCOMMANDS = (
    Command(
        "image", "Set the images of containers", _image,
        Help(
            "(-f FILENAME | TYPE NAME) CONTAINER=IMAGE ...", "",
            ("Set an image", "set image deployment/web app=nginx:1.27"),
            ("Set all", "set image deployments --all *=nginx:1.27"),
        ),
        *OBJECTS, *shared("record"),
    ),
    ENV,
    Command(
        "resources", "Set what containers ask for and may use", _resources,
        Help(
            "(-f FILENAME | TYPE NAME) ([--limits=LIMITS] [--requests=REQUESTS])", "",
            ("Limit the memory", "set resources deployment/web --limits=memory=1Gi"),
        ),
        *OBJECTS, CONTAINERS, *shared("record"),
        Flag("limits", help="What they may use, RESOURCE=QUANTITY, separated by commas."),
        Flag("requests", help="What they ask for, RESOURCE=QUANTITY, separated by commas."),
    ),
    Command(
        "serviceaccount", "Set the service account of pods", _service_account,
        Help("(-f FILENAME | TYPE NAME) SERVICE_ACCOUNT", "", ("Set it", "set serviceaccount deployment/web robot")),
        *FILENAME, *_OWN, *shared("record"),
        aliases=("sa",),
    ),
    Command(
        "selector", "Set the selector of services", _selector,
        Help("(-f FILENAME | TYPE NAME) EXPRESSIONS", "", ("Set it", "set selector service/web app=web")),
        *FILES_BELOW, *_OWN, *shared("resource-version record"),
    ),
    Command(
        "subject", "Add users to role bindings", _subject,
        Help(
            "(-f FILENAME | TYPE NAME) [--user=NAME] [--group=NAME]", "",
            ("Add one", "set subject rolebinding/web --user=jane"),
        ),
        *OBJECTS,
        Flag("user", "array", help="A user who gets the role; may be repeated."),
        Flag("group", "array", help="A group that gets the role; may be repeated."),
        Flag("serviceaccount", "array", help="A service account that gets the role, NAMESPACE:NAME; may be repeated."),
    ),
)  # fmt: skip
