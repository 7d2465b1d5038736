"""``kapi attach`` (upstream: kubectl ``cmd/attach``): attaches to the running command of a container.

``debug`` and ``run`` join the container that they have just made in the same way.
"""

from __future__ import annotations

from kapi.client.errors import StatusError
from kapi.client.remotecommand import attach
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import check_pod_timeout, container_of, named_object, pods_of, write_bytes
from kapi.kubectl.remote_streams import FLAGS as STREAMS
from kapi.kubectl.remote_streams import DetachKeys, has_terminal, join, upgrading
from kapi.kubectl.waiting import FOREVER_SECONDS, wait_for
from kapi.machinery.tree import Object, dig

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


#: the notice before further output of a container
NOTICE = (
    "All commands and output from this session will be recorded in container logs, including credentials and sensitive "
    "information passed through the command prompt.\nIf you don't see a command prompt, try pressing enter.\n"
)


async def attach_when_running(
    factory: Factory, pod: Object, name: str, seconds: float = FOREVER_SECONDS, *, from_start: bool = False
) -> None:
    """Waits until the container runs, and attaches to it; for a terminated container it prints the log.

    ``from_start``: prints the earlier output too, after a notice.  Raises CommandError and StatusError.
    """
    metadata, client = pod["metadata"], factory.client("v1")

    def begun(found: Object | None) -> bool:
        return any(key in state_of(found, name) for key in ("running", "terminated"))

    mapping = await factory.mapper.resource_for("pods")
    info = Info(client, mapping, metadata["namespace"], metadata["name"])
    found = await wait_for(factory, info, begun, factory.reactor.seconds() + seconds)
    ended = "terminated" in state_of(found, name)
    if ended or from_start:
        request = info.request(client.get()).subresource("log").param("container", name)
        write_bytes(factory.out, await request.raw())
    if ended:
        return
    if from_start and not factory.flags.get_bool("quiet"):
        factory.err.write(NOTICE)
        factory.err.flush()
    tty = has_terminal(factory, factory.flags.get_bool("tty"))
    running = await attach(
        client, metadata["namespace"], metadata["name"], container=name, stdin=factory.flags.get_bool("stdin"), tty=tty
    )
    await join(factory, running, tty)


def state_of(pod: Object | None, name: str) -> Object:
    """The state of a container of a pod."""
    statuses = (one for key in _STATUSES for one in dig(pod, "status", key) or ())
    return next((one.get("state") or {} for one in statuses if one["name"] == name), {})


FLAGS = (*STREAMS, *shared("detach-keys"))
HELP = Help(
    "(POD | TYPE/NAME) -c CONTAINER",
    "Connects to the main process of a container: its output, and with -i its input.",
    ("See the output of a pod", "attach web-0"),
    ("Type into a container", "attach web-0 -c shell -i -t"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    words = flags.arguments
    if not words:
        raise CommandError("at least 1 argument is required for attach")
    if len(words) > 2:
        raise CommandError(
            f"expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {len(words)}: [{' '.join(words)}]"
        )
    check_pod_timeout(factory, f"{program} attach")
    info = await named_object(factory, program, words[-1], *words[:-1])
    pod = (await pods_of(factory, info, "attach to"))[0]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise CommandError(f"cannot attach a container in a completed pod; current phase is {phase}")
    try:
        container = container_of(factory, pod, flags.get_string("container"), quiet=flags.get_bool("quiet"))
    except CommandError as error:
        raise CommandError(f"cannot attach to the container: {error}") from None
    tty = has_terminal(factory, _shares_terminal(factory, pod, container))
    detach = DetachKeys(flags.get_string("detach-keys") or "ctrl-p,ctrl-q") if tty else None
    if not flags.get_bool("quiet"):
        factory.err.write(NOTICE)
        factory.err.flush()
    metadata = pod["metadata"]
    with upgrading():
        running = await attach(
            factory.client("v1"), metadata["namespace"], metadata["name"],
            container=container, stdin=flags.get_bool("stdin"), tty=tty,
        )  # fmt: skip
    try:
        code = await join(factory, running, tty, detach)
    except StatusError as error:
        raise CommandError(error.message) from None
    if code:
        raise CommandError(f"command terminated with exit code {code}", code=code, plain=True)
    if tty and not flags.get_bool("quiet"):
        factory.out.write(_resume(program, pod, container))
    return 0


def _shares_terminal(factory: Factory, pod: Object, container: str) -> bool:
    """Whether the container has a terminal, which is then used even without ``--tty``."""
    spec = pod["spec"]
    groups = ("containers", "initContainers", "ephemeralContainers")
    found = any(one["name"] == container and one.get("tty") for group in groups for one in spec.get(group) or ())
    if factory.flags.get_bool("tty") and not found and not factory.flags.get_bool("quiet"):
        factory.err.write(f"error: Unable to use a TTY - container {container} did not allocate one\n")
    return found


def _resume(program: str, pod: Object, container: str) -> str:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    command = f"'{program} attach {name} -c {container} -n {namespace} -i -t'"
    if any(one["name"] == container for one in pod["spec"].get("ephemeralContainers") or ()):
        return (
            "Session ended, the ephemeral container will not be restarted but may be reattached using "
            f"{command} if it is still running\n"
        )
    return f"Session ended, resume using {command} command\n"
