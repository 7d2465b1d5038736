"""Joins a container that was just made, as ``debug`` and ``run`` do."""

from __future__ import annotations

from kapi.client.remotecommand import attach
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info
from kapi.kubectl.pods_of import write_bytes
from kapi.kubectl.remote_streams import has_terminal, join
from kapi.kubectl.waiting import FOREVER_SECONDS, wait_for
from kapi.machinery.tree import Object, dig

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


#: before what a container says from now on
NOTICE = (
    "All commands and output from this session will be recorded in container logs, including credentials and sensitive "
    "information passed through the command prompt.\nIf you don't see a command prompt, try pressing enter.\n"
)


async def attach_when_running(
    factory: Factory, pod: Object, name: str, seconds: float = FOREVER_SECONDS, *, from_start: bool = False
) -> None:
    """Waits until the container runs, and joins it; of one that has ended it prints the log.

    ``from_start``: prints what it has said before too, after a notice.  Raises CommandError and StatusError.
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
