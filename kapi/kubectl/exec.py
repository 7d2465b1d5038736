"""``kapi exec`` (upstream: kubectl ``cmd/exec``)."""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.client.remotecommand import start
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import check_pod_timeout, container_of, named_object, pods_of
from kapi.kubectl.remote_streams import FLAGS as FLAGS
from kapi.kubectl.remote_streams import has_terminal, join

HELP = Help(
    "(POD | TYPE/NAME) [-c CONTAINER] -- COMMAND [ARGUMENT ...]",
    "Runs a program in a container. What comes after -- is its command line.",
    (
        ("Run a command", "exec web-0 -- date"),
        ("Open a shell", "exec web-0 -c app -it -- sh"),
    ),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if not flags.arguments or flags.dash == 0:
        raise CommandError("pod, type/name or --filename must be specified")
    if len(flags.arguments) > 1 and flags.dash != 1:
        raise CommandError(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead",
            usage=f"{program} exec",
        )
    pod_name, *command = flags.arguments
    if not command:
        raise CommandError("you must specify at least one command for the container")
    check_pod_timeout(factory, f"{program} exec")
    info = await named_object(factory, program, pod_name)
    pod = (await pods_of(factory, info, "attach to"))[0]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise CommandError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    container = container_of(factory, pod, flags.get_string("container"), quiet=flags.get_bool("quiet"))
    metadata, tty = pod["metadata"], has_terminal(factory, flags.get_bool("tty"))
    try:
        running = await start(
            factory.client("v1"), metadata["namespace"], metadata["name"], command,
            container=container, stdin=flags.get_bool("stdin"), tty=tty,
        )  # fmt: skip
    except StatusError as error:
        raise CommandError(f"unable to upgrade connection: {error.message}") from None
    try:
        code = await join(factory, running, tty)
    except StatusError as error:
        raise CommandError(error.message) from None
    if code:
        raise CommandError(f"command terminated with exit code {code}", code=code, plain=True)
    return 0
