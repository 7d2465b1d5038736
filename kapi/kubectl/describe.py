"""``kapi describe`` (upstream: kubectl ``cmd/describe``)."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.describers.kinds import Reader, describe
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, Flag, shared
from kapi.kubectl.messages import CommandError
from kapi.machinery.status import NotFound

FLAGS = (
    *FILENAME,
    *shared("selector all-namespaces chunk-size"),
    Flag("show-events", "bool", default=True, help="Show the events about an object."),
)
HELP = Help(
    "([-f FILENAME] | TYPE [NAME_PREFIX | -l LABEL] | TYPE/NAME)",
    "Shows objects in detail: their fields, what belongs to them, and the events about them.",
    ("Describe a node", "describe nodes worker-1"),
    ("Describe the pods with a label", "describe pods -l app=web"),
    ("Describe what a file names", "describe -f pod.yaml"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    arguments, files = flags.arguments, flags.get_list("filename")
    if not arguments and not files:
        raise CommandError(
            f'You must specify the type of resource to describe. Use "{program} api-resources" for a complete list of '
            "supported resources.\n"
        )
    everywhere = flags.get_bool("all-namespaces")
    builder = Builder(factory, program)
    builder.namespace(
        factory.namespace, enforce=bool(flags.get_string("namespace")) and not everywhere, everywhere=everywhere
    )
    builder.filenames(files, flags.get_bool("recursive")).labels(flags.get_string("selector"))
    builder.resource_type_or_name(arguments).chunks_of(flags.get_int("chunk-size")).flatten()
    if not files:
        builder.latest()
    result = await builder.do()
    infos = await result.infos()
    unread, errors = result.errors, list[BaseException]()
    show_events = flags.get_bool("show-events")
    if (unread or len(infos) > 1) and not flags.given("show-events"):
        show_events = False
    if len(unread) == 1 and isinstance(unread[0], NotFound) and len(arguments) == 2:
        return await _describe_matching(factory, program, unread[0], show_events)
    read = Reader(factory, flags.get_int("chunk-size"))
    separator = ""
    for info in infos:
        try:
            if not info.name:
                raise CommandError("resource name may not be empty")
            shown = await describe(read, info, show_events)
        except (CommandError, StatusError) as error:
            if str(error) not in map(str, (*unread, *errors)):
                errors.append(error)
            continue
        factory.out.write(separator + shown)
        separator = "\n\n"
    if not infos and not unread:
        where = "" if everywhere else f" in {factory.namespace} namespace."
        factory.err.write(f"No resources found{where}\n")
    result.raise_errors(errors)
    return 0


async def _describe_matching(factory: Factory, program: str, missing: NotFound, show_events: bool) -> int:
    """Describes the objects whose names begin with the given text, which is not a name itself."""
    flags = factory.flags
    resource, prefix = flags.arguments
    builder = Builder(factory, program).namespace(factory.namespace).resource_type_or_name([resource])
    builder.single_resource_type().chunks_of(flags.get_int("chunk-size")).flatten().latest()
    result = await builder.do()
    infos = [info for info in await result.infos() if info.name.startswith(prefix)]
    result.raise_errors()
    read = Reader(factory, flags.get_int("chunk-size"))
    for info in infos:
        factory.out.write(await describe(read, info, show_events) + "\n")
    if not infos:
        raise missing
    return 0
