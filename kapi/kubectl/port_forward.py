"""``kapi port-forward`` (upstream: kubectl ``cmd/portforward``)."""

from __future__ import annotations

import re

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError

from kapi.client.portforward import PortForward
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import named_object, pods_of
from kapi.machinery.tree import Object

FLAGS = (Flag("address", "list", default=["localhost"]), Flag("pod-running-timeout", "duration", default=60.0))
_LOCALHOST = ("127.0.0.1", "::1")
HELP = Help(
    "(POD | TYPE/NAME) [LOCAL:]REMOTE ...",
    "Listens on local ports, and forwards connections to ports of a pod until it is ended.",
    (
        ("Forward port 8080 to port 80 of a pod", "port-forward web-0 8080:80"),
        ("Listen on a free port, for a service", "port-forward service/web :http"),
    ),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) < 2:
        raise CommandError("TYPE/NAME and list of ports are required for port-forward", usage=f"{program} port-forward")
    what, *texts = flags.arguments
    info = await named_object(factory, program, what)
    pod = (await pods_of(factory, info, "attach to"))[0]
    pairs = [_ports(text, info, pod) for text in texts]
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise CommandError(f"unable to forward port because pod is not running. Current status={phase}")
    metadata = pod["metadata"]
    for local, remote in pairs:
        forward = PortForward(
            factory.client("v1"), metadata["namespace"], metadata["name"], remote, lambda text: _report(factory, text)
        )
        await _listen(factory, forward, local)
    factory.out.flush()
    await Deferred()  # forwards until the user ends the command
    return 0


def _report(factory: Factory, text: str) -> None:
    factory.err.write(f"error: {text}\n")
    factory.err.flush()


async def _listen(factory: Factory, forward: PortForward, local: int) -> None:
    """Listens on the addresses of ``--address``.  Raises CommandError when an address, or neither of localhost's, can be used."""
    for address in factory.flags.get_list("address"):
        listening = []
        for one in _LOCALHOST if address == "localhost" else (address,):
            try:
                local = await forward.listen(factory.reactor, local, one)
            except CannotListenError as error:
                _report(factory, f"unable to listen on port {local}: {error.socketError}")
                continue
            listening.append(one)
            shown = f"[{one}]" if ":" in one else one
            factory.out.write(f"Forwarding from {shown}:{local} -> {forward.port}\n")
        if not listening:
            raise CommandError(f"unable to listen on any of the requested ports: [{{{local} {forward.port}}}]")


def _ports(text: str, info: Info, pod: Object) -> tuple[int, int]:
    """The local port and the Pod's port of ``LOCAL:REMOTE``, ``:REMOTE`` or ``PORT``.  Raises CommandError."""
    local, colon, remote = text.partition(":")
    remote = remote if colon else local
    number = _service_port(info, pod, remote) if info.mapping.kind == "Service" else _pod_port(pod, remote)
    if not colon:
        local = str(number) if not remote.isdigit() else remote
    if local and not local.isdigit():
        raise CommandError(
            f"error parsing local port '{local}': strconv.ParseUint: parsing \"{local}\": invalid syntax"
        )
    if not 0 < number < 65536:
        raise CommandError("remote port must be > 0")
    return int(local or 0), number


def _pod_port(pod: Object, text: str) -> int:
    if re.fullmatch(r"\d+", text):
        return int(text)
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == text:
                return int(port["containerPort"])
    raise CommandError(f"Pod '{pod['metadata']['name']}' does not have a named port '{text}'")


def _service_port(info: Info, pod: Object, text: str) -> int:
    """The Pod's port to which a port of a Service leads."""
    service = info.object or {}
    for port in service["spec"].get("ports") or ():
        if text in (str(port["port"]), port.get("name")):
            return _pod_port(pod, str(port.get("targetPort") or port["port"]))
    raise CommandError(f"Service {info.name} does not have a service port {text}")
