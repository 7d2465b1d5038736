"""NetworkPolicy (networking.k8s.io/v1).

Upstream: ``pkg/apis/networking/validation``, ``pkg/registry/networking/networkpolicy``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.addresses import check_cidr_legacy, cidr_warnings, parse_network
from kapi.resources.shared.names import is_port_name, is_port_number
from kapi.resources.shared.rules import Errors, check, need, not_supported, supported
from kapi.resources.shared.selectors import validate_label_selector
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def _port(port: Object, path: Path, errors: Errors) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in ("TCP", "UDP", "SCTP"):
        errors.append(not_supported(path.child("protocol"), protocol, ("TCP", "UDP", "SCTP")))
    if number is None:
        if end is not None:
            errors.append(invalid(path.child("endPort"), end, "may not be specified when `port` is not specified"))
    elif isinstance(number, str):
        if end is not None:
            errors.append(invalid(path.child("endPort"), end, "may not be specified when `port` is non-numeric"))
        check(is_port_name)(number, path.child("port"), errors, None)
    else:
        check(is_port_number)(number, path.child("port"), errors, None)
        if end is not None:
            if end < number:
                # upstream shows the port here, not the end port
                errors.append(invalid(path.child("endPort"), number, "must be greater than or equal to `port`"))
            check(is_port_number)(end, path.child("endPort"), errors, None)


def _ip_block(block: Object, path: Path, accepted: Collection[str], errors: Errors, ctx: StrategyContext) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        errors.append(required(path.child("cidr")))
        return
    errors += check_cidr_legacy(path.child("cidr"), cidr, ctx, accepted)
    outer = parse_network(cidr)
    if outer is None:
        return
    for text, here in each(path.child("except"), block):
        errors += check_cidr_legacy(here, text, ctx, accepted)
        inner = parse_network(text)
        if inner is None:
            continue
        network, hole = outer[1], inner[1]
        inside = network.version == hole.version and hole.network_address in network
        if not inside or network.prefixlen >= hole.prefixlen:
            errors.append(invalid(here, text, "must be a strict subset of `cidr`"))


def _peer(peer: Object, path: Path, accepted: Collection[str], lax: bool, errors: Errors, ctx: StrategyContext) -> None:
    for part in ("podSelector", "namespaceSelector"):
        if peer.get(part) is not None:
            validate_label_selector(peer[part], path.child(part), errors, allow_invalid_values=lax)
    block = peer.get("ipBlock")
    if block is not None:
        _ip_block(block, path.child("ipBlock"), accepted, errors, ctx)
    count = sum(peer.get(part) is not None for part in ("podSelector", "namespaceSelector", "ipBlock"))
    if need(count, path, errors, detail="must specify a peer") and count > 1 and block is not None:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _blocks(policy: Object) -> Iterator[tuple[Path, Object]]:
    """Every ipBlock with its path."""
    spec = policy.get("spec") or {}
    for direction, peers in _DIRECTIONS:
        for rule, here in each(_SPEC.child(direction), spec):
            for j, peer in enumerate(elements(rule, peers)):
                if peer.get("ipBlock") is not None:
                    yield here.child(peers).index(j).child("ipBlock"), peer["ipBlock"]


class NetworkPolicyStrategy(PlainStrategy):
    generation_parts = ("spec",)
    compares_empty = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for direction, _ in _DIRECTIONS:
            for rule in elements(spec, direction):
                for port in elements(rule, "ports"):
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        accepted: set[str] = set()
        lax = False
        if old is not None:
            accepted = {text for _, block in _blocks(old) for text in (block.get("cidr"), *elements(block, "except"))}
            found: Errors = []
            validate_label_selector((old.get("spec") or {}).get("podSelector") or {}, Path(), found)
            lax = bool(found)
        validate_label_selector(
            spec.get("podSelector") or {}, _SPEC.child("podSelector"), errors, allow_invalid_values=lax
        )
        for direction, peers in _DIRECTIONS:
            for rule, here in each(_SPEC.child(direction), spec):
                for port, place in each(here.child("ports"), rule):
                    _port(port, place, errors)
                for peer, place in each(here.child(peers), rule):
                    _peer(peer, place, accepted, lax, errors, ctx)
        types, path = spec.get("policyTypes") or [], _SPEC.child("policyTypes")
        if len(types) > 2:
            errors.append(invalid(path, types, "may not specify more than two policyTypes"))
            return
        for kind, place in each_of(path, types):
            supported(kind, ("Ingress", "Egress"), place, errors)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        warnings: list[str] = []
        for path, block in elements(_blocks(obj)):
            warnings += cidr_warnings(path.child("cidr"), block.get("cidr", ""))
            for text, here in each(path.child("except"), block):
                warnings += cidr_warnings(here, text)
        return warnings


RESOURCE = Resource(
    *type_meta("networking.k8s.io/v1", "NetworkPolicy"),
    short_names=("netpol",),
    strategy=NetworkPolicyStrategy(),
    table=printing.table(
        printing.NAME,
        printing.column(
            "Pod-Selector",
            lambda obj, now: printing.label_selector((obj.get("spec") or {}).get("podSelector") or {}),
            ".spec.podSelector",
        ),
        printing.AGE,
        of="api.networking.v1.NetworkPolicy",
    ),
)
