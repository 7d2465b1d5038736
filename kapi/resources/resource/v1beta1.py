"""Conversion from and to resource.k8s.io/v1beta1.

In v1beta1 a request itself has the fields of ``exactly``, and a device has all fields except its name in ``basic``.
Upstream: ``pkg/apis/resource/v1beta1/conversion.go`` (KEP-4381).
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.tree import Object, Tree

_EXACT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def _deeper(request: Object) -> Object:
    exactly = {name: request[name] for name in _EXACT if request.get(name) is not None}
    rest = {name: value for name, value in request.items() if name not in _EXACT}
    return {**rest, "exactly": exactly} if any(map(_is_set, exactly.items())) else rest


def _is_set(entry: tuple[str, Tree]) -> bool:
    name, value = entry
    return bool(value) or name in ("adminAccess", "selectors", "tolerations", "capacity")


def _flat(request: Object) -> Object:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, "deviceClassName": "", **(request.get("exactly") or {})}


def _claim_spec(spec: Object, convert: Callable[[Object], Object]) -> Object:
    devices = spec.get("devices")
    if not devices or not devices.get("requests"):
        return spec
    return {**spec, "devices": {**devices, "requests": [convert(request) for request in devices["requests"]]}}


def _claim(claim: Object, convert: Callable[[Object], Object]) -> Object:
    return {**claim, "spec": _claim_spec(claim["spec"], convert)} if claim.get("spec") else claim


def _template(template: Object, convert: Callable[[Object], Object]) -> Object:
    outer = template.get("spec") or {}
    if not outer.get("spec"):
        return template
    return {**template, "spec": {**outer, "spec": _claim_spec(outer["spec"], convert)}}


def claim_from_v1beta1(claim: Object) -> Object:
    return _claim(claim, _deeper)


def claim_to_v1beta1(claim: Object) -> Object:
    return _claim(claim, _flat)


def template_from_v1beta1(template: Object) -> Object:
    return _template(template, _deeper)


def template_to_v1beta1(template: Object) -> Object:
    return _template(template, _flat)


def _slice(piece: Object, convert: Callable[[Object], Object]) -> Object:
    spec = piece.get("spec")
    if spec is None:
        return piece
    # no pointers in v1beta1: "" and false equal absent values
    spec = {name: value for name, value in spec.items() if value or name not in ("nodeName", "allNodes")}
    if spec.get("devices"):
        spec["devices"] = [convert(device) for device in spec["devices"]]
    return {**piece, "spec": spec}


def slice_from_v1beta1(piece: Object) -> Object:
    return _slice(piece, lambda device: {"name": device.get("name", ""), **(device.get("basic") or {})})


def slice_to_v1beta1(piece: Object) -> Object:
    def basic(device: Object) -> Object:
        return {
            "name": device.get("name", ""),
            "basic": {name: value for name, value in device.items() if name != "name"},
        }

    return _slice(piece, basic)
