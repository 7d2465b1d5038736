"""LimitRanger: defaults and bounds of a namespace's LimitRanges for pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.machinery import quantities
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.machinery.pod_resources import pod_resources
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object
from kapi.resources.shared.poddefaults import default_pod_level

Amounts = dict[str, str]
_ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = (1 << 63) // 1000 - 1  # the largest value whose thousandths fit into 64 bits


class LimitRanger(InitializedPlugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods", "persistentvolumeclaims"})

    def _ranges(self, attributes: Attributes) -> list[Object]:
        """The LimitRanges that concern a request."""
        kind = attributes.kind
        if kind.group or kind.kind not in ("Pod", "PersistentVolumeClaim") or attributes.obj is None:
            return []
        if kind.kind == "Pod" and attributes.operation == UPDATE:
            if attributes.subresource != "resize":
                return []
        elif attributes.subresource:
            return []
        if attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp"):
            return []
        return self.initializer.lister("", "limitranges").list(attributes.namespace)

    def admit(self, attributes: Attributes) -> None:
        for limit_range in self._ranges(attributes):
            assert attributes.obj is not None
            if attributes.resource.resource == "pods":
                _set_defaults(limit_range, attributes.obj)

    def validate(self, attributes: Attributes) -> None:
        for limit_range in self._ranges(attributes):
            assert attributes.obj is not None
            check = _pod_problems if attributes.resource.resource == "pods" else _claim_problems
            problems = aggregate(check(limit_range, attributes.obj))
            if problems:
                raise denied(attributes, problems)


def _limits(limit_range: Object, kind: str) -> Iterator[Object]:
    for limit in elements(limit_range, "spec", "limits"):
        if limit.get("type") == kind:
            yield limit


def _set_defaults(limit_range: Object, pod: Object) -> None:
    requests: Amounts = {}
    limits: Amounts = {}
    for limit in _limits(limit_range, "Container"):
        requests.update(limit.get("defaultRequest") or {})
        limits.update(limit.get("default") or {})
    notes: list[str] = []
    for field, called in (("containers", "container"), ("initContainers", "init container")):
        for container in elements(pod["spec"], field):
            for part, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
                given = (container.get("resources") or {}).get(part) or {}
                missing = ordered(name for name in defaults if name not in given)
                if missing:
                    amounts = {**given, **{name: defaults[name] for name in missing}}
                    container["resources"] = {**(container.get("resources") or {}), part: amounts}
                    notes.append(f"{', '.join(missing)} {word} for {called} {container.get('name', '')}")
    if notes:
        default_pod_level(pod["spec"])  # upstream completes them when it reads the stored pod
        metadata = pod["metadata"]
        text = "LimitRanger plugin set: " + "; ".join(notes)
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}


def _pod_problems(limit_range: Object, pod: Object) -> Iterator[str]:
    spec = pod["spec"]
    for limit in elements(limit_range, "spec", "limits"):
        kind = limit.get("type")
        if kind == "Container":
            for field in ("containers", "initContainers"):
                for container in elements(spec, field):
                    resources = container.get("resources") or {}
                    yield from _bounds(limit, kind, resources.get("requests") or {}, resources.get("limits") or {})
        elif kind == "Pod":
            requests = pod_resources(spec, "requests", huge_pages=False)
            yield from _bounds(limit, kind, requests, pod_resources(spec, "limits", huge_pages=False))


def _claim_problems(limit_range: Object, claim: Object) -> Iterator[str]:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for limit in _limits(limit_range, "PersistentVolumeClaim"):
        kind = limit["type"]
        for name, bound in elements(ordered((limit.get("min") or {}).items())):
            yield from _minimum(kind, name, bound, requests, {})
        for name, bound in elements(ordered((limit.get("max") or {}).items())):
            start = f"maximum {name} usage per {kind} is {bound}"
            if name not in requests:
                yield f"{start}.  No request is specified"
            elif _above(requests[name], bound):
                yield f"{start}, but request is {requests[name]}"


def _bounds(limit: Object, kind: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    checks: tuple[tuple[str, Callable[..., Iterator[str]]], ...] = (
        ("min", _minimum),
        ("max", _maximum),
        ("maxLimitRequestRatio", _ratio),
    )
    for field, check in checks:
        for name, bound in elements(ordered((limit.get(field) or {}).items())):
            yield from check(kind, name, bound, requests, limits)


def _minimum(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif _above(bound, requests[name], limits.get(name)):
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and _above(bound, limits[name], requests[name]):
        yield f"{start}, but limit is {limits[name]}"


def _maximum(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif _above(limits[name], bound, requests.get(name)):
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and _above(requests[name], bound, limits[name]):
        yield f"{start}, but request is {requests[name]}"


def _ratio(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {bound}"
    given = [requests.get(name, "0"), limits.get(name, "0"), bound]
    measure = _measure(given)
    request, limit = measure(given[0]), measure(given[1])
    if not request:
        yield f"{start}, but no request is specified or request is 0"
        return
    if not limit:
        yield f"{start}, but no limit is specified or limit is 0"
        return
    ratio = limit / request
    if ratio * 1000 > quantities.milli(bound):
        yield f"{start}, but provided ratio is {ratio:.6f}"


def _measure(amounts: list[str]) -> Callable[[str], int]:
    """Thousandths while all values allow it, whole units otherwise."""
    small = all(quantities.ceiling(amount) <= _MAX_MILLI for amount in amounts)
    return quantities.milli if small else quantities.ceiling


def _above(one: str, other: str, third: str | None = None) -> bool:
    measure = _measure([one, other] if third is None else [one, other, third])
    return measure(one) > measure(other)
