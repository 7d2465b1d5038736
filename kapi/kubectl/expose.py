"""``kapi expose`` (upstream: kubectl ``cmd/expose``, ``polymorphichelpers``): a service for the pods of an object."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapi.kubectl.command import Help
from kapi.kubectl.create_workloads import int_or_string
from kapi.kubectl.creating import OVERRIDES, create_generated, labels_of, overridden
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.updates import given_objects, pod_spec
from kapi.kubectl.writing import dry_run_strategy, dry_run_suffix
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, dig

MAX_NAME = 63  # characters
#: what can be exposed
_KINDS = (("", "ReplicationController"), ("", "Service"), ("", "Pod"), ("apps", "Deployment"), ("apps", "ReplicaSet"))
_NO_PORT = "couldn't find port via --port flag or introspection"
FLAGS = (
    *FILENAME,
    *PRINT,
    *OVERRIDES,
    *shared("dry-run save-config field-manager record"),
    Flag("name", help="The name of the service; by default, that of the object."),
    Flag("port", help="The port of the service, or several with commas; by default, those of the object."),
    Flag("target-port", help="The port of the pods, a number or a name; by default, that of the service."),
    Flag("protocol", help="The protocol of the ports: TCP, UDP or SCTP."),
    Flag("type", help="The type of the service: ClusterIP, NodePort, LoadBalancer or ExternalName."),
    Flag("cluster-ip", help="The address of the service; None for a service without one."),
    Flag("external-ip", help="Another address at which the service accepts connections."),
    Flag("load-balancer-ip", help="The address of the load balancer."),
    Flag("session-affinity", help="None or ClientIP."),
    Flag("selector", help="The labels of the pods, such as app=web; by default, those of the object."),
    Flag("labels", short="l", help="The labels of the service, such as app=web; by default, those of the object."),
)  # fmt: skip
HELP = Help(
    "(-f FILENAME | TYPE NAME) [--port=PORT] [--protocol=TCP|UDP|SCTP] [--target-port=PORT] [--name=NAME] [--type=TYPE]",
    "Makes a service for the pods of a deployment, replica set, replication controller or service, or for a pod.",
    ("Serve port 80 by port 8000 of the pods", "expose deployment web --port=80 --target-port=8000"),
    ("Make a second service", "expose service web --port=443 --target-port=8443 --name=web-https"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    printer = printer_for(flags, f"exposed{dry_run_suffix(dry_run)}", typed=True)
    factory.check_config()
    result = await given_objects(factory, program, known=True)
    async for info in result.visit():
        with result.caught():
            made = await create_generated(factory, overridden(factory, program, _service(factory, info)), "services")
            factory.out.write(printer.print(made))
    result.finish()
    return 0


def _service(factory: Factory, info: Info) -> Object:
    """The service for an object.  Raises CommandError."""
    flags, mapping, exposed = factory.flags, info.mapping, info.object or {}
    if (mapping.group, mapping.kind) not in _KINDS:
        raise CommandError(f"cannot expose a {'.'.join(filter(None, (mapping.kind, mapping.group)))}")
    selector = flags.get_string("selector")
    selected = labels_of(selector) if selector else _selector(info, exposed)
    ports = [*_protocols(info, exposed)]
    port = flags.get_string("port")
    numbers = port.split(",") if port else list(dict.fromkeys(str(number) for number, _ in ports))
    if not numbers and flags.get_string("cluster-ip") != "None":
        raise CommandError(_NO_PORT)
    labels = labels_of(flags.get_string("labels")) if flags.get_string("labels") else exposed["metadata"].get("labels")
    name = flags.get_string("name") or info.name[:MAX_NAME]
    if not name:
        raise CommandError("name must be specified")
    return service(
        name, selected, labels, service_ports(numbers, ports, flags.get_string("protocol"), flags.get_string("target-port")),
        **_settings(factory),
    )  # fmt: skip


def service(name: str, selector: Object, labels: Object | None, ports: list[Object], **settings: object) -> Object:
    """A Service, in the order of Go's fields.  ``settings`` are further fields of its spec."""
    order = ("ports", "selector", "clusterIP", "type", "externalIPs", "sessionAffinity", "loadBalancerIP")
    fields: Object = {"ports": ports, "selector": selector, **settings}
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name} | ({"labels": labels} if labels else {}),
        "spec": {field: fields[field] for field in order if fields.get(field)},
        "status": {"loadBalancer": {}},
    }


def _settings(factory: Factory) -> Object:
    """The fields of the spec that flags name.  Raises CommandError."""
    flags = factory.flags
    affinity, kind, external = (flags.get_string(name) for name in ("session-affinity", "type", "external-ip"))
    if affinity not in ("", "None", "ClientIP"):
        raise CommandError(f"unknown session affinity: {affinity}")
    return {
        "clusterIP": flags.get_string("cluster-ip"),
        "type": kind,
        "externalIPs": [external] if external else [],
        "sessionAffinity": affinity,
        "loadBalancerIP": flags.get_string("load-balancer-ip") if kind == "LoadBalancer" else "",
    }


def service_ports(
    numbers: list[str], known: list[tuple[int, str]], protocol: str = "", target: str = ""
) -> list[Object]:
    """The ports of a service.  ``known``: ports of the pods, with their protocols.  Raises CommandError."""
    found = []
    for place, text in enumerate(numbers, 1):
        if not re.fullmatch(r"[+-]?\d+", text):
            raise CommandError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
        number = int(text)
        protocols = [protocol] if protocol else [one for port, one in known if port == number] or ["TCP"]
        several = len(numbers) > 1
        for one in dict.fromkeys(protocols):
            name = f"port-{place}" if several else ""
            if len(set(protocols)) > 1:
                name = f"port-{place}-{one.lower()}"
            port: Object = {"name": name} if name else {}
            port |= {"protocol": one, "port": number, "targetPort": int_or_string(target) if target else number}
            found.append(port)
    return found


def _selector(info: Info, exposed: Object) -> Object:
    """The labels of the pods.  Raises CommandError where a service cannot have such a selector."""
    kind, spec = info.mapping.kind, exposed.get("spec") or {}
    found: Object = {}
    why = ""
    if kind == "Pod":
        found, why = exposed["metadata"].get("labels") or {}, "the pod has no labels and cannot be exposed"
    elif kind in ("Service", "ReplicationController"):
        found, why = spec.get("selector") or {}, "the service has no pod selector set"
    else:
        name = "deployment" if kind == "Deployment" else kind
        found, why = (
            dig(spec, "selector", "matchLabels") or {},
            f"invalid {name}: no selectors, therefore cannot be exposed",
        )
        if found and (expressions := dig(spec, "selector", "matchExpressions")):
            shown = " ".join(_shown(one) for one in expressions)
            why, found = f"couldn't convert expressions - {quote(f'[{shown}]')} to map-based selector format", {}
    if not found:
        raise CommandError(f"couldn't retrieve selectors via --selector flag or introspection: {why}")
    return found


def _shown(expression: Object) -> str:
    """As Go's ``%+v``."""
    values = " ".join(expression.get("values") or ())
    return f"{{Key:{expression['key']} Operator:{expression['operator']} Values:[{values}]}}"


def _protocols(info: Info, exposed: Object) -> Iterator[tuple[int, str]]:
    """The ports of the pods or the service, with their protocols."""
    if info.mapping.kind == "Service":
        for one in dig(exposed, "spec", "ports") or ():
            yield one["port"], one.get("protocol") or "TCP"
        return
    for container in pod_spec(exposed, info).get("containers") or ():
        for one in container.get("ports") or ():
            yield one["containerPort"], one.get("protocol") or "TCP"
