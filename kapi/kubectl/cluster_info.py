"""``kapi cluster-info`` and ``cluster-info dump`` (upstream: kubectl ``cmd/clusterinfo``)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kapi.client.config_error import NoConnection
from kapi.client.errors import StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, Flag, like, shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.machinery.tree import Object, dig

_LISTS = (
    ("v1", "events", "events"),
    ("v1", "replicationcontrollers", "replication-controllers"),
    ("v1", "services", "services"),
    ("apps/v1", "daemonsets", "daemonsets"),
    ("apps/v1", "deployments", "deployments"),
    ("apps/v1", "replicasets", "replicasets"),
    ("v1", "pods", "pods"),
)


async def run(factory: Factory, program: str) -> int:
    namespace = factory.flags.get_string("namespace") or "kube-system"
    with contextlib.suppress(NoConnection):  # is told when a request is made
        factory.check_config()
    try:
        request = factory.client("v1").get().namespace(namespace).resource("services")
        services = (await request.param("labelSelector", "kubernetes.io/cluster-service=true").do()).get("items") or []
        host = factory.config.host
        factory.out.write(f"Kubernetes control plane is running at {host}\n")
        for service in services:
            name = (dig(service, "metadata", "labels") or {}).get("kubernetes.io/name") or service["metadata"]["name"]
            factory.out.write(f"{name} is running at {_link(host, service)}\n")
    finally:  # also after an error
        factory.out.write(f"\nTo further debug and diagnose cluster problems, use '{program} cluster-info dump'.\n")
    return 0


def _link(host: str, service: Object) -> str:
    ports = dig(service, "spec", "ports") or []
    ingress = dig(service, "status", "loadBalancer", "ingress")
    if ingress:
        address = ingress[0].get("ip") or ingress[0].get("hostname", "")
        return "".join(f"http://{address}:{port['port']} " for port in ports)
    name, port = service["metadata"]["name"], ports[0] if ports else {}
    scheme = "https" if port.get("name") == "https" or port.get("port") == 443 else ""
    if scheme or port.get("name"):
        name = f"{scheme}:{name}:{port.get('name', '')}" if scheme else f"{name}:{port['name']}"
    return f"{host}/api/v1/namespaces/{service['metadata']['namespace']}/services/{name}/proxy"


async def _dump(factory: Factory, program: str) -> int:
    from kapi.kubectl.local_patch import decoded

    flags = factory.flags
    directory, output = flags.get_string("output-directory"), flags.get_string("output")
    extension = {"json": ".json", "yaml": ".yaml"}.get(output, ".txt")
    printer = printer_for(flags, typed=True)
    if output == "name":
        raise CommandError("list types are not supported by name printing: *v1.NodeList")

    def write(text: str, *path: str, end: str = extension) -> None:
        """Writes to the file of this path below the directory; only its owner can read it."""
        if directory in ("", "-"):
            factory.out.write(text)
            return
        file = Path(directory, *path[:-1], path[-1] + end)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
            opened.write(text)

    async def listed(version: str, resource: str, namespace: str = "") -> Object:
        found: Object = await factory.client(version).get().namespace(namespace).resource(resource).do()
        return decoded({**found, "items": found.get("items") or None})

    write(printer.print(await listed("v1", "nodes")), "nodes")
    namespaces = flags.get_list("namespaces") or ["kube-system", factory.namespace]
    if flags.get_bool("all-namespaces"):
        namespaces = [one["metadata"]["name"] for one in (await listed("v1", "namespaces"))["items"] or ()]
    for namespace in namespaces:
        pods: list[Object] = []
        for version, resource, name in _LISTS:
            found = await listed(version, resource, namespace)
            pods = found["items"] or []
            write(printer.print(found), namespace, name)
        for pod in pods:
            write(await _logs(factory, pod), namespace, pod["metadata"]["name"], "logs", end=".txt")
    if directory not in ("", "-"):
        factory.out.write(f"Cluster info dumped to {directory}\n")
    return 0


async def _logs(factory: Factory, pod: Object) -> str:
    metadata, text = pod["metadata"], ""
    where = f"pod {metadata['namespace']}/{metadata['name']}"
    for container in (*(dig(pod, "spec", "initContainers") or ()), *pod["spec"]["containers"]):
        request = factory.client("v1").get().namespace(metadata["namespace"]).resource("pods").name(metadata["name"])
        try:
            logs = (await request.subresource("log").param("container", container["name"]).raw()).decode(
                "utf-8", "replace"
            )
        except StatusError as error:
            logs = f"Request log error: {_raw_message(error, metadata['name'])}\n"
        text += f"==== START logs for container {container['name']} of {where} ====\n{logs}"
        text += f"==== END logs for container {container['name']} of {where} ====\n"
    return text


def _raw_message(error: StatusError, name: str) -> str:
    """client-go's message for an answer whose body it does not read."""
    if error.code < 500:
        return error.message
    return f'an error on the server ("unknown") has prevented the request from succeeding (get pods {name})'


HELP = Help(
    "[dump]", "Shows where the API server and the services of the cluster are.", ("Show the addresses", "cluster-info")
)
SUBCOMMANDS = (
    Command(
        "dump", "Write what is needed to find a fault", _dump,
        Help("", "", ("Write the state to a directory", "cluster-info dump --output-directory=state")),
        *(like("output", default="json") if flag.name == "output" else flag for flag in PRINT),
        *shared("all-namespaces"),
        like("pod-running-timeout", default=20.0),
        Flag("output-directory", help="The directory for the files; - or nothing for standard output."),
        Flag("namespaces", "list", help="The namespaces that are meant, separated by commas."),
    ),
)  # fmt: skip
