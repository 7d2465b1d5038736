"""``kapi exec`` (upstream: kubectl ``cmd/exec``)."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.client.remotecommand import start
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME
from kapi.kubectl.info import Info, is_list
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import check_pod_timeout, container_of, named_object, pods_of
from kapi.kubectl.remote_streams import FLAGS as STREAMS
from kapi.kubectl.remote_streams import has_terminal, join, upgrading

FLAGS = (*STREAMS, *(flag for flag in FILENAME if flag.name == "filename"))
HELP = Help(
    "(POD | TYPE/NAME | -f FILENAME) [-c CONTAINER] -- COMMAND [ARGUMENT ...]",
    "Runs a program in a container. What comes after -- is its command line.",
    ("Run a command", "exec web-0 -- date"),
    ("Open a shell", "exec web-0 -c app -it -- sh"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    words, files = flags.arguments, flags.get_list("filename")
    name = words[0] if words and flags.dash != 0 else ""
    if flags.dash not in (0, 1) and (len(words) > 1 or (words and files)):
        raise CommandError(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead",
            usage=f"{program} exec",
        )
    factory.check_namespace()
    check_pod_timeout(factory, f"{program} exec")
    factory.check_config()
    if not name and not files:
        raise CommandError("pod, type/name or --filename must be specified")
    command = words if flags.dash == 0 else words[1:]
    if not command:
        raise CommandError("you must specify at least one command for the container")
    info = await (_described(factory, program, name) if files else named_object(factory, program, name))
    pod = (await pods_of(factory, info, "attach to"))[0]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise CommandError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    container = container_of(factory, pod, flags.get_string("container"), quiet=flags.get_bool("quiet"))
    metadata, tty = pod["metadata"], has_terminal(factory, flags.get_bool("tty"))
    with upgrading():
        running = await start(
            factory.client("v1"), metadata["namespace"], metadata["name"], command,
            container=container, stdin=flags.get_bool("stdin"), tty=tty,
        )  # fmt: skip
    try:
        code = await join(factory, running, tty)
    except StatusError as error:
        raise CommandError(error.message) from None
    if code:
        raise CommandError(f"command terminated with exit code {code}", code=code, plain=True)
    return 0


async def _described(factory: Factory, program: str, name: str) -> Info:
    """The object from the files.  Raises CommandError."""
    flags = factory.flags
    builder = Builder(factory, program).filenames(flags.get_list("filename"), False)
    builder.namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    result = await builder.known().resource_names("pods", [name] if name else []).do()
    infos = await result.all_or_first_error()
    if len(infos) != 1 or is_list(infos[0].object or {}):
        raise CommandError("cannot exec into multiple objects at a time")
    return infos[0]
