"""``kapi port-forward`` (upstream: kubectl ``cmd/portforward``)."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable

from twisted.internet.error import CannotListenError

from kapi.client.portforward import PortForward
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.messages import CommandError, listen_problem
from kapi.kubectl.pods_of import check_pod_timeout, named_object, pods_of
from kapi.kubectl.remote_streams import upgrading
from kapi.machinery.golang import NumberError, parse_uint, quote
from kapi.machinery.tree import Object
from kapi.wire.answer import BadAnswer
from kapi.wire.spdy import SPDYStreams
from kapi.wire.upgrade import WebSocketClosed
from kapi.wire.websocket import WebSocket

FLAGS = (
    *shared("pod-running-timeout"),
    Flag("address", "list", default=["localhost"],
         help="Addresses to listen on, separated by commas; localhost is 127.0.0.1 and ::1."),
)  # fmt: skip
_SCHEME = "k8s.io/client-go/kubernetes/scheme/register.go:84"  # in an error, where kubectl's other commands have theirs
_LOCALHOST = ("127.0.0.1", "::1")
HELP = Help(
    "(POD | TYPE/NAME) [LOCAL:]REMOTE ...",
    "Listens on local ports, and forwards connections to ports of a pod until it is ended.",
    ("Forward port 8080 to port 80 of a pod", "port-forward web-0 8080:80"),
    ("Listen on a free port, for a service", "port-forward service/web :http"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    if len(flags.arguments) < 2:
        raise CommandError("TYPE/NAME and list of ports are required for port-forward", usage=f"{program} port-forward")
    check_pod_timeout(factory, f"{program} port-forward")
    what, *texts = flags.arguments
    info = await named_object(factory, program, what, scheme=_SCHEME)
    pod = (await pods_of(factory, info, "attach to"))[0]
    service = info.object if info.mapping.kind == "Service" else None
    texts = _of_pod(pod, texts) if service is None else _of_service(service, pod, texts)
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise CommandError(f"unable to forward port because pod is not running. Current status={phase}")
    metadata = pod["metadata"]
    addresses = _addresses(flags.get_list("address"))
    numbers = [_numbers(text) for text in texts]
    client, place = factory.client("v1"), (metadata["namespace"], metadata["name"])
    forwards = [
        PortForward(client, *place, remote, lambda text: _report(factory, text), lambda port: _tell(factory, port))
        for _, remote in numbers
    ]
    connection = await _open(forwards[0])
    listening = False
    for forward, (local, _) in zip(forwards, numbers, strict=True):
        listening |= await _listen(factory, forward, local, addresses)
    if not listening:
        pairs = " ".join(f"{{{local} {remote}}}" for local, remote in numbers)
        raise CommandError(f"unable to listen on any of the requested ports: [{pairs}]")
    factory.out.flush()
    with contextlib.suppress(WebSocketClosed, BadAnswer):
        while await connection.read():  # until the user ends the command
            pass
    raise CommandError("lost connection to pod")


async def _open(forward: PortForward) -> WebSocket | SPDYStreams:
    """Raises CommandError when nothing can be forwarded, before anybody connects."""
    try:
        with upgrading():
            return await forward.open()
    except CommandError as error:
        raise CommandError(f"error upgrading connection: {error}") from None


def _tell(factory: Factory, port: int) -> None:
    factory.out.write(f"Handling connection for {port}\n")
    factory.out.flush()


def _report(factory: Factory, text: str) -> None:
    factory.err.write(f"error: {text}\n")
    factory.err.flush()


def _addresses(given: list[str]) -> list[tuple[str, ...]]:
    """The addresses of ``--address``; of those in one tuple one is enough.  Raises CommandError."""
    for address in given:
        try:
            ipaddress.ip_address("::1" if address == "localhost" else address)
        except ValueError:
            raise CommandError(f"{address} is not a valid IP") from None
    return [_LOCALHOST if address == "localhost" else (address,) for address in given]


async def _listen(factory: Factory, forward: PortForward, local: int, addresses: list[tuple[str, ...]]) -> bool:
    """Whether it listens on a port of all addresses; says why it does not."""
    problems: list[str] = []
    is_complete = True
    for hosts in addresses:
        begun = len(problems)
        for host in hosts:
            shown = f"[{host}]" if ":" in host else host
            try:
                local = await forward.listen(factory.reactor, local, host)
            except CannotListenError as error:
                where = f"tcp{6 if ':' in host else 4} {shown}:{local}"
                problems.append(f"unable to create listener: Error {listen_problem(where, error)}")
            else:
                factory.out.write(f"Forwarding from {shown}:{local} -> {forward.port}\n")
        is_complete &= len(problems) - begun < len(hosts)
    if not is_complete:
        why = f"Listeners failed to create with the following errors: [{' '.join(problems)}]"
        factory.err.write(f"Unable to listen on port {local}: {why}\n")
    return is_complete


def _split(text: str) -> tuple[str, str]:
    """The local and the remote port of ``LOCAL:REMOTE``, ``:REMOTE`` or ``PORT``."""
    local, colon, remote = text.partition(":")
    return (local, remote) if colon and ":" not in remote else (local, local)


def _check_protocol(ports: list[Object], texts: list[str], number: str, find: Callable[[str], int]) -> None:
    """Raises CommandError for a port that is only defined for UDP.  ``number`` is the field with a port's number."""
    of = {
        protocol: {port[number] for port in ports if port.get("protocol", "TCP") == protocol}
        for protocol in ("TCP", "UDP")
    }
    for text in texts:
        remote = _split(text)[1]
        if (int(remote) if _is_number(remote) else find(remote)) in of["UDP"] - of["TCP"]:
            raise CommandError(f"UDP protocol is not supported for {remote}")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text, re.ASCII) is not None


def _of_pod(pod: Object, texts: list[str]) -> list[str]:
    """The ports with numbers instead of names.  Raises CommandError."""

    def number(name: str) -> int:
        for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
            for port in container.get("ports") or ():
                if port.get("name", "") == name:
                    return int(port["containerPort"])
        raise CommandError(f"Pod '{pod['metadata']['name']}' does not have a named port '{name}'")

    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    _check_protocol(ports, texts, "containerPort", number)
    found = []
    for text in texts:
        local, remote = _split(text)
        if not remote:
            raise CommandError("remote port cannot be empty")
        wanted = remote if _is_number(remote) else str(number(remote))
        found.append(wanted if local == remote else f"{local}:{wanted}")
    return found


def _of_service(service: Object, pod: Object, texts: list[str]) -> list[str]:
    """The pod's ports that are targets of the service's ports.  Raises CommandError."""
    name, ports = service["metadata"]["name"], service["spec"].get("ports") or []

    def number(of: str) -> int:
        for port in ports:
            if port.get("name", "") == of:
                return int(port["port"])
        raise CommandError(f"Service '{name}' does not have a named port '{of}'")

    def target(wanted: int) -> str:
        for port in ports:
            if port["port"] == wanted:
                headless = service["spec"].get("clusterIP") == "None"
                leads = wanted if headless else port.get("targetPort") or wanted
                return str(leads) if isinstance(leads, int) else _of_pod(pod, [leads])[0]
        raise CommandError(f"Service {name} does not have a service port {wanted}")

    _check_protocol(ports, texts, "port", number)
    found = []
    for text in texts:
        local, remote = _split(text)
        wanted = int(remote) if _is_number(remote) else number(remote)
        local = str(wanted) if local == remote else local
        leads = target(wanted)
        found.append(leads if local == leads else f"{local}:{leads}")
    return found


def _numbers(text: str) -> tuple[int, int]:
    """The local port, 0 for any, and the pod's port.  Raises CommandError."""
    local, colon, remote = text.partition(":")
    if ":" in remote:
        raise CommandError(f"invalid port format '{text}'")
    local, remote = (local or "0", remote) if colon else (local, local)
    numbers = []
    for what, given in (("local", local), ("remote", remote)):
        try:
            numbers.append(parse_uint(given, 16))
        except NumberError as error:
            raise CommandError(
                f"error parsing {what} port '{given}': strconv.ParseUint: parsing {quote(given)}: {error}"
            ) from None
    if not numbers[1]:
        raise CommandError("remote port must be > 0")
    return numbers[0], numbers[1]
