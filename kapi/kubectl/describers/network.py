"""Services and their endpoints, ingresses, network policies, addresses."""

from __future__ import annotations

from kapi.kubectl.describers.lines import (
    ANNOTATIONS,
    CLUSTER_HEAD,
    HEAD,
    LABELS,
    NAME,
    NAMESPACE,
    NONE,
    UNSET,
    Lines,
    at,
    block,
    each,
    joined,
    line,
    map_text,
    row,
    selector,
    table,
    text,
)
from kapi.machinery.tree import Object, Tree

_MAX_ENDPOINTS = 3


def _addresses(slices: list[Object], port: str) -> str:
    """The first ready endpoints of a port, also from slices without ports."""
    found: list[str] = []
    for one in slices:
        ready = [end["addresses"][0] for end in one.get("endpoints") or () if at(end, "conditions.ready") is not False]
        for served in one.get("ports") or ():
            if served.get("name", "") == port:
                found += [f"[{host}]:{served['port']}" if ":" in host else f"{host}:{served['port']}" for host in ready]
        if not one.get("ports"):
            found += ready
    if not slices:
        return NONE
    more = len(found) - _MAX_ENDPOINTS
    return ",".join(found[:_MAX_ENDPOINTS]) + (f" + {more} more..." if more > 0 else "")


def _load_balancer(ingress: list[Object]) -> str:
    return ", ".join(
        one["ip"] + (f" ({one['ipMode']})" if "ipMode" in one else "") if one.get("ip") else one.get("hostname", "")
        for one in ingress
    )


def _service_ports(out: Lines, obj: Object) -> None:
    for port in at(obj, "spec.ports") or ():
        name, protocol = port.get("name") or UNSET, port["protocol"]
        out.put(f"Port:\t{name}\t{port['port']}/{protocol}\nTargetPort:\t{port['targetPort']}/{protocol}\n")
        if "appProtocol" in port:
            out.put(f"AppProtocol:\t{port['appProtocol']}\n")
        if port.get("nodePort"):
            out.put(f"NodePort:\t{name}\t{port['nodePort']}/{protocol}\n")
        out.put(f"Endpoints:\t{_addresses(obj['related']['slices'], port.get('name', ''))}\n")


SERVICE = (
    *HEAD,
    row("Selector", "spec.selector", NONE, map_text),
    row("Type", "spec.type", ""),
    row("IP Family Policy", "spec.ipFamilyPolicy"),
    row("IP Families", "spec.ipFamilies", NONE, joined(",")),
    row("IP", "spec.clusterIP", ""),
    row("IPs", "spec.clusterIPs", NONE, joined(",")),
    row("External IPs", "spec.externalIPs", show=joined(",")),
    row("Desired LoadBalancer IP", "spec.loadBalancerIP"),
    row("External Name", "spec.externalName"),
    row("LoadBalancer Ingress", "status.loadBalancer.ingress", show=_load_balancer),
    _service_ports,
    row("Session Affinity", "spec.sessionAffinity", ""),
    row("External Traffic Policy", "spec.externalTrafficPolicy"),
    row("Internal Traffic Policy", "spec.internalTrafficPolicy"),
    row("HealthCheck NodePort", "spec.healthCheckNodePort"),
    row("LoadBalancer Source Ranges", "spec.loadBalancerSourceRanges", show=joined(",")),
    row("Traffic Distribution", "spec.trafficDistribution"),
)


def _ips(addresses: list[Object]) -> str:
    return ",".join(one.get("ip", "") for one in addresses)


def _subset_ports(out: Lines, subset: Object) -> None:
    if ports := subset.get("ports"):
        out.put("Ports:\n", 1)
        rows = [f"{port.get('name') or UNSET}\t{port['port']}\t{port['protocol']}" for port in ports]
        out.table(("Name", "Port", "Protocol"), rows, 2)
    out.put("\n")


ENDPOINTS = (
    *HEAD,
    text("Subsets:"),
    each(
        "subsets",
        row("Addresses", "addresses", NONE, _ips, level=1),
        row("NotReadyAddresses", "notReadyAddresses", NONE, _ips, level=1),
        _subset_ports,
    ),
)


def _slice_ports(out: Lines, obj: Object) -> None:
    ports = obj.get("ports")
    out.put("Ports:\n" if ports else f"Ports: {UNSET}\n")
    if ports:
        rows = [f"{port.get('name') or UNSET}\t{port.get('port', UNSET)}\t{port['protocol']}" for port in ports]
        out.table(("Name", "Port", "Protocol"), rows, 1)


_ENDPOINT = (
    row("- Addresses", "addresses", NONE, joined(", "), level=1),
    text("Conditions:", 2),
    row("Ready", "conditions.ready", UNSET, level=3),
    row("Hostname", "hostname", UNSET, level=2),
    row("TargetRef", "targetRef", None, lambda ref: f"{ref.get('kind', '')}/{ref.get('name', '')}", level=2),
    row("NodeName", "nodeName", UNSET, level=2),
    row("Zone", "zone", UNSET, level=2),
)
ENDPOINT_SLICE = (
    *HEAD,
    row("AddressType", "addressType", ""),
    _slice_ports,
    line(lambda obj: "Endpoints:" if obj.get("endpoints") else f"Endpoints: {NONE}"),
    each("endpoints", *_ENDPOINT),
)

# -- ingresses ----------------------------------------------------------------------------------------------------------


def _backend(obj: Object, backend: Object | None) -> str:
    if backend is None:
        return "<default>"
    if (resource := backend.get("resource")) is not None:
        return f"APIGroup: {resource.get('apiGroup') or NONE}, Kind: {resource['kind']}, Name: {resource['name']}"
    service: Tree = backend.get("service")
    if service is None:
        return ""
    port = service.get("port") or {}
    shown = f"{service['name']}:{port.get('number') or port.get('name', '')}"
    found = obj["related"]["backends"][service["name"]]
    if "error" in found:
        return f"{shown} (<error: {found['error']}>)"
    name = ""
    for one in found["ports"]:
        if (
            port.get("number") == one["port"]
            if port.get("number")
            else port.get("name") and port["name"] == one.get("name")
        ):
            name = one.get("name", "")
    return f"{shown} ({_addresses(found['slices'], name)})"


def _rules(out: Lines, obj: Object) -> None:
    default = _backend(obj, at(obj, "spec.defaultBackend"))
    out.put("Rules:\n  Host\tPath\tBackends\n  ----\t----\t--------\n")
    rules = [rule for rule in at(obj, "spec.rules") or () if rule.get("http") is not None]
    for rule in rules:
        out.put(f"{rule.get('host') or '*'}\t\n", 1)
        for path in rule["http"]["paths"]:
            out.put(f"\t{path.get('path', '')} \t{_backend(obj, path['backend'])}\n", 2)
    if not rules:
        out.put(f"*\t*\t{default}\n", 1)


def _balanced(ingress: list[Object]) -> str:
    return ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in ingress} - {""}))


def _tls(one: Object) -> str:
    hosts = ",".join(one.get("hosts") or ())
    return f"{one['secretName']} terminates {hosts}" if one.get("secretName") else f"SNI routes {hosts}"


INGRESS = (
    NAME,
    LABELS,
    NAMESPACE,
    row("Address", "status.loadBalancer.ingress", "", _balanced),
    row("Ingress Class", "spec.ingressClassName", NONE),
    line(lambda obj: f"Default backend:\t{_backend(obj, at(obj, 'spec.defaultBackend'))}"),
    block("TLS", "spec.tls", each("", line(_tls, 1))),
    _rules,
    ANNOTATIONS,
)
INGRESS_CLASS = (
    *CLUSTER_HEAD,
    row("Controller", "spec.controller", ""),
    block("Parameters", "spec.parameters", row("APIGroup", "apiGroup", level=1), row("Kind", "kind", "", level=1), row("Name", "name", "", level=1)),  # noqa: E501
)  # fmt: skip
SERVICE_CIDR = (
    *CLUSTER_HEAD,
    row("CIDRs", "spec.cidrs", "", joined(", ")),
    table(
        "status.conditions",
        "Type|Status|LastTransitionTime|Reason|Message",
        "type status @lastTransitionTime reason message",
        "Status:\nConditions",
    ),
)
IP_ADDRESS = (
    *CLUSTER_HEAD,
    block(
        "Parent Reference",
        "spec.parentRef",
        *(row(name.capitalize(), name, "", level=1) for name in ("group", "resource", "namespace", "name")),
    ),
)

# -- network policies ---------------------------------------------------------------------------------------------------


def _port(port: Object) -> str:
    protocol, number = port.get("protocol", "TCP"), port.get("port", "<nil>")
    if "endPort" in port:
        return f"To Port Range: {number}-{port['endPort']}/{protocol}"
    return f"To Port: {number}/{protocol}"


def _peer(out: Lines, peer: Object) -> None:
    chosen = [
        (title, peer[path])
        for title, path in (("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector"))
        if path in peer
    ]
    for title, found in chosen:
        out.put(f"{title}: {selector(found)}\n", 3)
    if not chosen and "ipBlock" in peer:
        out.put("IPBlock:\n", 3)
        out.put(f"CIDR: {peer['ipBlock']['cidr']}\n", 4)
        out.put(f"Except: {', '.join(peer['ipBlock'].get('except') or ())}\n", 4)


def _direction(out: Lines, spec: Object, direction: str, preposition: str, end: str) -> None:
    if direction.capitalize() not in (spec.get("policyTypes") or ()):
        out.put(f"Not affecting {direction} traffic\n", 1)
        return
    out.put(f"Allowing {direction} traffic:\n", 1)
    rules = spec.get(direction) or []
    if not rules:
        out.put(f"{NONE} (Selected pods are isolated for {direction} connectivity)\n", 2)
    for number, rule in enumerate(rules):
        if number:
            out.put("----------\n", 2)
        for shown in [_port(port) for port in rule.get("ports") or ()] or [
            "To Port: <any> (traffic allowed to all ports)"
        ]:
            out.put(f"{shown}\n", 2)
        peers = rule.get(preposition.lower()) or []
        for peer in peers:
            out.put(f"{preposition}:\n", 2)
            _peer(out, peer)
        if not peers:
            out.put(f"{preposition}: <any> (traffic not restricted by {end})\n", 2)


def _policy(out: Lines, spec: Object) -> None:
    chosen = selector(spec.get("podSelector"))
    everything = f"{NONE} (Allowing the specific traffic to all pods in this namespace)"
    out.put("PodSelector: ", 1)
    out.put(f"{everything if chosen == NONE else chosen}\n", 2)
    _direction(out, spec, "ingress", "From", "source")
    _direction(out, spec, "egress", "To", "destination")
    out.put(f"Policy Types: {', '.join(spec.get('policyTypes') or ()) or NONE}\n", 1)


def _created(value: str) -> str:
    import datetime

    return datetime.datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S %z %Z")


NETWORK_POLICY = (
    NAME,
    NAMESPACE,
    row("Created on", "metadata.creationTimestamp", "", _created),
    LABELS,
    ANNOTATIONS,
    block("Spec", "spec", _policy),
)
