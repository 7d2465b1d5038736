"""``kapi wait`` (upstream: kubectl ``cmd/wait``)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.task import deferLater

from kapi.kubectl.builder import Builder, selecting_builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILES_BELOW, PRINT, Flag, like, shared
from kapi.kubectl.info import Info
from kapi.kubectl.jsonpath import Template, relaxed
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.interface import Printer
from kapi.kubectl.waiting import FOREVER_SECONDS, wait_for
from kapi.machinery.golang import value_text
from kapi.machinery.jsonpath import JSONPathError
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

POLL_SECONDS = 0.5  # between checks for objects that do not exist yet

FLAGS = (
    *FILES_BELOW,
    *PRINT,
    *shared("selector field-selector all all-namespaces local"),
    Flag("for", "array", help="The condition: create, delete, condition=NAME[=VALUE] or jsonpath='{PATH}'[=VALUE]."),
    like("timeout", default=30.0),
)
_FORMAT = "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or --for=jsonpath='{.status.readyReplicas}'"
_NO_VALUE = "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3"
Done = Callable[[Object | None], bool]
HELP = Help(
    "([-f FILENAME] | TYPE/NAME | TYPE [(-l LABEL | --all)]) --for=CONDITION",
    "Waits until all given objects meet a condition; ends with 1 when that takes longer than --timeout.",
    ("Wait for a pod to be ready", "wait --for=condition=Ready pod/web-0 --timeout=60s"),
    ("Wait until it is gone", "wait --for=delete pod/web-0"),
    ("Wait for the value of a field", "wait --for=jsonpath='{.status.phase}'=Running pod/web-0"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    printer = printer_for(flags, "condition met")
    factory.check_config()
    conditions = [_condition(text) for text in flags.get_list("for")]
    if not conditions:
        raise CommandError("unrecognized condition: []")
    timeout = flags.get_duration("timeout")
    end = factory.reactor.seconds() + (FOREVER_SECONDS if timeout < 0 else timeout)
    builder = selecting_builder(factory, program).latest()
    builder.resource_type_or_name(flags.arguments, allow_empty_selector=flags.get_bool("all"))
    if flags.get_bool("local") and not flags.get_list("filename"):
        builder.local()
    deleting = _deleted in conditions
    if _created in conditions:
        await _appeared(factory, builder, end)
    result = await builder.do()
    result.ignore_not_found = deleting
    found = False
    async for info in result.visit():
        found = True
        try:
            await _wait_all(factory, info, conditions, None if timeout == 0 else end, printer)
        except (CommandError, JSONPathError) as error:
            result.errors.append(error)  # in the order of the objects
    if not found and not result.errors and not deleting:
        raise CommandError("no matching resources found")
    raise_errors(result.errors)
    return 0


async def _appeared(factory: Factory, builder: Builder, end: float) -> None:
    """Waits until the objects are there.  Raises CommandError and StatusError."""
    while True:
        result = await builder.do()
        infos = await result.infos()
        if infos and not result.errors:
            return
        if len(result.errors) > 1 or not all(isinstance(error, NotFound) for error in result.errors):
            raise_errors(result.errors)
        if factory.reactor.seconds() >= end:
            raise CommandError("timed out waiting for the condition")
        await deferLater(factory.reactor, POLL_SECONDS)


async def _wait_all(factory: Factory, info: Info, conditions: list[Done], end: float | None, printer: Printer) -> None:
    """``end``: None for a single check.  Raises CommandError."""
    if not info.name:
        raise CommandError("resource name must be provided")
    for done in conditions:
        if done is _deleted and end is not None and end <= factory.reactor.seconds():
            raise CommandError("context deadline exceeded")  # as for all objects after the one that took the time
        final = await wait_for(factory, info, done, end) or info.object
        factory.out.write(printer.print(final or {}))


def _deleted(obj: Object | None) -> bool:
    return obj is None


def _created(obj: Object | None) -> bool:
    return obj is not None


def _condition(text: str) -> Done:
    lower = text.lower()
    if lower == "delete":
        return _deleted
    if lower == "create":
        return _created
    if text.startswith("condition="):
        name, equals, value = text[len("condition=") :].partition("=")
        return _of_type(name, value if equals else "true")
    if text.startswith("jsonpath="):
        return _of_path(text[len("jsonpath=") :])
    raise CommandError(f'unrecognized condition: "{text}"')


def _of_type(kind: str, status: str) -> Done:
    def done(obj: Object | None) -> bool:
        for one in ((obj or {}).get("status") or {}).get("conditions") or ():
            if str(one.get("type")).lower() == kind.lower():
                generation = (obj or {}).get("metadata", {}).get("generation")
                observed = one.get("observedGeneration", (obj or {})["status"].get("observedGeneration"))
                if observed is not None and generation is not None and observed < generation:
                    return False
                return str(one.get("status")).lower() == status.lower()
        return False

    return done


def _of_path(text: str) -> Done:
    path, *wanted = (part.replace("\0", "==") for part in text.replace("==", "\0").split("="))
    if len(wanted) > 1:
        raise CommandError(_FORMAT)
    try:
        template = Template(relaxed(path)) if path else None
    except JSONPathError as error:
        raise CommandError(str(error)) from None
    value = wanted[0].strip("'\"") if wanted else ""
    if wanted and not value:
        raise CommandError(_NO_VALUE)
    if template is None:
        raise CommandError("jsonpath expression cannot be empty")

    def done(obj: Object | None) -> bool:
        found = template.find(obj or {})
        if not found or not found[0]:
            return False
        for several, what in ((found, "list"), (found[0], "value")):
            if len(several) > 1:
                raise CommandError(f"given jsonpath expression matches more than one {what}")
        if wanted and isinstance(found[0][0], dict | list):
            raise CommandError("jsonpath leads to a nested object or list which is not supported")
        return not wanted or value_text(found[0][0]).strip() == value.strip()

    return done
