"""Plugins that add tolerations to pods, or allow them, and the one that taints new nodes.

A toleration that another one covers is removed.  Upstream: ``pkg/util/tolerations``, ``podtolerationrestriction``,
``nodetaint``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from math import inf

import orjson

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.pods import is_pod
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import generic, not_found
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.affinity import validate_tolerations
from kapi.resources.shared.annotated_tolerations import read_tolerations
from kapi.resources.shared.compute import qos_class
from kapi.resources.shared.options import PodOptions

Toleration = Object
_Key = tuple[str, str, str | None]
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
_ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


class TolerationIndex:
    """Tolerations indexed by key, effect and value, to find the tolerations that cover another one."""

    def __init__(self, tolerations: Iterable[Toleration] = ()) -> None:
        self._known: set[bytes] = set()
        #: key, effect and value (None: any) -> the two tolerations that last longest: seconds, encoded
        self._longest: dict[_Key, list[tuple[float, bytes]]] = {}
        for toleration in elements(tolerations):
            self.add(toleration)

    def add(self, toleration: Toleration) -> None:
        encoded = _encoded(toleration)
        self._known.add(encoded)
        operator = toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            return
        effect, seconds = toleration.get("effect") or "", toleration.get("tolerationSeconds")
        value = None if operator == "Exists" else toleration.get("value", "")
        lasting = inf if effect != "NoExecute" or seconds is None else seconds
        longest = self._longest.setdefault((toleration.get("key") or "", effect, value), [])
        if all(other != encoded for _, other in longest):
            longest.append((lasting, encoded))
            longest.sort(reverse=True)
            del longest[2:]

    def covers(self, narrow: Toleration, *, equal: bool = True) -> bool:
        """Whether another toleration covers this one; ``equal``: an equal one counts, too."""
        encoded = _encoded(narrow)
        if encoded in self._known and equal:
            return True
        key, effect, seconds = narrow.get("key") or "", narrow.get("effect") or "", narrow.get("tolerationSeconds")
        values = [None, narrow.get("value", "")] if narrow.get("operator") == "Equal" else [None]
        for value in values:
            for wide_key in {key, ""} if value is None else {key}:
                for wide_effect in {effect, ""}:
                    for lasting, other in self._longest.get((wide_key, wide_effect, value), ()):
                        if other != encoded and (lasting == inf or seconds is not None and seconds <= lasting):
                            return True
        return False


def _encoded(toleration: Toleration) -> bytes:
    return orjson.dumps(toleration, option=orjson.OPT_SORT_KEYS)


def merged(first: list[Toleration], second: list[Toleration]) -> list[Toleration]:
    """Both lists without covered tolerations; of equal tolerations the first stays."""
    everything = [*first, *second]
    later = TolerationIndex()
    covered_later = [False] * len(everything)
    for i in elements(range(len(everything) - 1, -1, -1)):
        covered_later[i] = later.covers(everything[i], equal=False)
        later.add(everything[i])
    kept, known = [], TolerationIndex()
    for i, toleration in enumerate(elements(everything)):
        if not covered_later[i] and not known.covers(toleration):
            kept.append(toleration)
            known.add(toleration)
    return kept


class DefaultTolerationSeconds(Plugin):
    """Pods stay five minutes on a node that is not ready or not reachable."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})

    def __init__(self, initializer: Initializer) -> None:
        settings = initializer.settings
        self.seconds = ((_NOT_READY, settings.not_ready_toleration), (_UNREACHABLE, settings.unreachable_toleration))

    def admit(self, attributes: Attributes) -> None:
        if not is_pod(attributes) or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        tolerations = spec.get("tolerations") or []
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key, seconds in self.seconds
            if not any(
                toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")
                for toleration in tolerations
            )
        ]
        if added:
            spec["tolerations"] = [*tolerations, *added]


class ExtendedResourceToleration(Plugin):
    """Pods that ask for an extended resource tolerate nodes dedicated to it."""

    operations = frozenset({CREATE, UPDATE})

    def admit(self, attributes: Attributes) -> None:
        if not is_pod(attributes) or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        names = {
            name
            for field in ("containers", "initContainers")
            for container in elements(spec, field)
            for name in elements(container, "resources", "requests")
            if is_extended(name)
        }
        if not names:
            return
        tolerations = spec.setdefault("tolerations", [])
        places: dict[object, int] = {}
        for i, toleration in enumerate(tolerations):
            if [toleration.get(key) for key in ("operator", "effect", "value")] == ["Exists", "NoSchedule", None]:
                places.setdefault(toleration.get("key"), i)
        for name in sorted(names):
            toleration = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            place = places.get(name)
            if place is None:
                tolerations.append(toleration)
            else:
                tolerations[place] = toleration


def is_extended(name: str) -> bool:
    """A resource with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


class PodTolerationRestriction(Plugin):
    """Tolerations that a namespace adds and allows."""

    operations = frozenset({CREATE, UPDATE})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        given = configuration or {}
        self.initializer = initializer
        self.defaults: list[Toleration] = given.get("default") or []
        self.allowed: list[Toleration] = given.get("whitelist") or []
        path, problems = Path().child("podtolerationrestriction"), list[FieldError]()
        for name, listed in (("default", self.defaults), ("whitelist", self.allowed)):
            validate_tolerations(listed, path.child(name), problems, PodOptions(initializer))
        if problems:
            raise ValueError(f"invalid config: [{' '.join(map(str, problems))}]")

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._admit(attributes) if is_pod(attributes) else None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return self._validate(attributes) if is_pod(attributes) else None

    async def _admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        extra: list[Toleration] = []
        if attributes.operation == CREATE:
            of_namespace = await self._annotated(attributes.namespace, _DEFAULTS)
            extra = list(self.defaults if of_namespace is None else of_namespace)
        if qos_class(spec) != "BestEffort":
            extra.append(dict(_PRESSURE))
        if extra:
            spec["tolerations"] = merged(spec.get("tolerations") or [], extra)
        await self._validate(attributes)

    async def _validate(self, attributes: Attributes) -> None:
        tolerations = ((attributes.obj or {}).get("spec") or {}).get("tolerations") or []
        if not tolerations:
            return
        allowed, whose = await self._annotated(attributes.namespace, _ALLOWED), "namespace"
        if allowed is None:
            allowed, whose = self.allowed, "cluster"
        if not allowed:
            return
        covering = TolerationIndex(allowed)
        if not all(covering.covers(toleration) for toleration in elements(tolerations)):
            raise generic(
                f"pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
            )

    async def _annotated(self, name: str, annotation: str) -> list[Toleration] | None:
        namespace = await self.initializer.live("", "namespaces", name)
        if namespace is None:
            raise not_found(GroupResource("", "namespaces"), name)
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if text is None:
            return None
        try:
            return read_tolerations(text, "v1") or [] if text else []
        except ValueError as error:
            raise generic(str(error)) from None


_TAINT = {"key": _NOT_READY, "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    """A new node takes no pods until it is reported ready."""

    operations = frozenset({CREATE})
    resources = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "nodes" or resource.group or attributes.subresource:
            return
        assert attributes.obj is not None
        spec = attributes.obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == _TAINT["key"] and taint.get("effect") == _TAINT["effect"] for taint in taints):
            spec["taints"] = [*taints, dict(_TAINT)]
