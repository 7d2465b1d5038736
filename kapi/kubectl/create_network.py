"""``kapi create service`` and ``kapi create ingress`` (upstream: kubectl ``cmd/create``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine

from kapi.kubectl.command import Command, Help
from kapi.kubectl.create_workloads import int_or_string
from kapi.kubectl.creating import CREATE, create, metadata, one_name
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError
from kapi.machinery.golang import quote
from kapi.machinery.names import dns_subdomain
from kapi.machinery.tree import Object

MAX_PORT = 65535
_RULE = re.compile(
    r"(?P<host>[\w*.-]*)(?P<path>/.*)=(?P<name>[\w-]+):(?P<port>[\w-]+)(,(?P<tls>tls)=?(?P<secret>[\w-]+)?)?"
)


def _ports(text: str) -> tuple[int, int | str]:
    """Port and target port of PORT[:TARGET].  Raises CommandError."""
    given, *targets = text.split(":")
    if not re.fullmatch(r"\+?\d+", given):
        raise CommandError(f"strconv.ParseUint: parsing {quote(given)}: invalid syntax")
    port = int(given)
    if port > MAX_PORT:
        raise CommandError(f"strconv.ParseUint: parsing {quote(given)}: value out of range")
    if not targets:
        return port, port
    target = int_or_string(targets[0])
    if isinstance(target, int) and not 1 <= target <= MAX_PORT:
        raise CommandError(f"must be between 1 and {MAX_PORT}, inclusive")
    if isinstance(target, str) and (problems := _port_name_problems(target)):
        raise CommandError(",".join(problems))
    return port, target


def _port_name_problems(name: str) -> list[str]:
    problems = ["must be no more than 15 characters"] if len(name) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def _service(kind: str) -> Callable[[Factory, str], Coroutine[object, object, int]]:
    async def run(factory: Factory, program: str) -> int:
        flags = factory.flags
        name, tcp = one_name(factory, program, required=False), flags.get_list("tcp")
        address = flags.get_string("clusterip") if kind == "ClusterIP" else ""
        external = flags.get_string("external-name") if kind == "ExternalName" else ""
        if address != "None" and not tcp and kind != "ExternalName":
            raise CommandError("at least one tcp port specifier must be provided")
        if kind == "ExternalName" and dns_subdomain(external):
            raise CommandError(f"invalid service external name {external}")
        ports = []
        for text in tcp:
            port, target = _ports(text)
            one: Object = {"name": text.replace(":", "-"), "protocol": "TCP", "port": port, "targetPort": target}
            number = flags.get_int("node-port") if kind == "NodePort" else 0
            ports.append(one | ({"nodePort": number} if number else {}))
        labels = {"app": name}
        spec: Object = {"ports": ports} if ports else {}
        spec["selector"] = labels
        spec |= {"clusterIP": address} if address else {}
        spec["type"] = kind
        spec |= {"externalName": external} if external else {}
        obj: Object = {"kind": "Service", "apiVersion": "v1", "metadata": metadata(factory, name, labels=labels)}
        obj |= {"spec": spec, "status": {"loadBalancer": {}}}
        return await create(factory, obj, "services", f"failed to create {kind} service:", saved=False)

    return run


async def _ingress(factory: Factory, program: str) -> int:
    flags = factory.flags
    name = one_name(factory, program, required=False)
    default, rules = flags.get_string("default-backend"), flags.get_list("rule")
    if not default and not rules:
        raise CommandError(
            "not enough information provided: every ingress has to either specify a default-backend (which catches all "
            "traffic) or a list of rules (which catch specific paths)"
        )
    for rule in rules:
        if not _RULE.match(rule):
            raise CommandError(
                f"rule {rule} is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]"
            )
    annotations = {}
    for text in flags.get_list("annotation"):
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"annotation {text} is invalid and should be in format key=[value]")
        annotations[key] = value
    if default and default.count(":") != 1:
        raise CommandError("default-backend should be in format servicename:serviceport")
    spec: Object = {"ingressClassName": flags.get_string("class")} if flags.get_string("class") else {}
    spec |= {"defaultBackend": _backend(default)} if default else {}
    spec |= {"tls": found} if (found := _tls(rules)) else {}
    spec |= {"rules": _rules(rules)} if rules else {}
    found_metadata = metadata(factory, name, annotations=dict(sorted(annotations.items())))
    obj: Object = {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": found_metadata}
    obj |= {"spec": spec, "status": {"loadBalancer": {}}}
    return await create(factory, obj, "ingresses", "failed to create ingress:")


def _backend(text: str) -> Object:
    name, port = text.split(":")[:2]
    number = int_or_string(port)
    return {"service": {"name": name, "port": {"number": number} if isinstance(number, int) else {"name": number}}}


def _rules(rules: list[str]) -> list[Object]:
    hosts: dict[str, list[Object]] = {}
    for rule in rules:
        host, _, rest = rule.split(",")[0].partition("/")
        path, service = rest.split("=")[:2]
        kind = "Prefix" if path.endswith("*") else "Exact"
        one = {"path": "/" + path.removesuffix("*"), "pathType": kind, "backend": _backend(service)}
        hosts.setdefault(host, []).append(one)
    return [({"host": host} if host else {}) | {"http": {"paths": paths}} for host, paths in hosts.items()]


def _tls(rules: list[str]) -> list[Object]:
    """One entry for each secret; a host is only in one."""
    found: list[Object] = []
    seen: set[str] = set()
    for rule in rules:
        parts = rule.split(",")
        host = rule.partition("/")[0]
        if len(parts) != 2 or host in seen:
            continue
        seen.add(host)
        secret = parts[1].split("=")[1] if "=" in parts[1] else ""
        same = next((one for one in found if one.get("secretName", "") == secret), None)
        if same is not None:
            same.setdefault("hosts", []).append(host)
            continue
        one: Object = ({"hosts": [host]} if host else {}) | ({"secretName": secret} if secret else {})
        if one:
            found.append(one)
    return found


_TCP = Flag("tcp", "list", help="Ports, PORT:TARGET, separated by commas.")
COMMANDS = (
    Command(
        "service", "Create a service", help=Help("(clusterip | externalname | loadbalancer | nodeport)"), aliases=("svc",),
        subcommands=(
            Command(
                "clusterip", "Create a service with an address in the cluster", _service("ClusterIP"),
                Help("NAME [--tcp=PORT:TARGET]", "", ("Create one", "create service clusterip web --tcp=80:8080")),
                *CREATE, _TCP, Flag("clusterip", help="The address; None for a service without one."),
            ),
            Command(
                "nodeport", "Create a service with a port on each node", _service("NodePort"),
                Help("NAME [--tcp=PORT:TARGET]", "", ("Create one", "create service nodeport web --tcp=80:8080")),
                *CREATE, _TCP, Flag("node-port", "int", help="The port on the nodes."),
            ),
            Command(
                "loadbalancer", "Create a service behind a load balancer", _service("LoadBalancer"),
                Help("NAME [--tcp=PORT:TARGET]", "", ("Create one", "create service loadbalancer web --tcp=80:8080")),
                *CREATE, _TCP,
            ),
            Command(
                "externalname", "Create a service that is a name elsewhere", _service("ExternalName"),
                Help(
                    "NAME --external-name=NAME", "",
                    ("Create one", "create service externalname db --external-name=db.example.com"),
                ),
                *CREATE, _TCP, Flag("external-name", required=True, help="The name (DNS)."),
            ),
        ),
    ),
    Command(
        "ingress", "Create an ingress", _ingress,
        Help(
            "NAME --rule=HOST/PATH=SERVICE:PORT[,tls[=SECRET]]", "",
            ("Send a host to a service", "create ingress web --rule='example.com/*=web:80,tls=web-cert'"),
        ),
        *CREATE,
        Flag("class", help="The class of the ingress."),
        Flag("rule", "array", help="HOST/PATH=SERVICE:PORT[,tls[=SECRET]]; a * at the end of the path is a prefix."),
        Flag("default-backend", help="SERVICE:PORT for all that no rule matches."),
        Flag("annotation", "array", help="An annotation, KEY=VALUE; may be repeated."),
        aliases=("ing",),
    ),
)  # fmt: skip
