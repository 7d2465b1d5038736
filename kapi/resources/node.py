"""RuntimeClass (node.k8s.io/v1).  Upstream: ``pkg/apis/node/validation``, ``pkg/registry/node/runtimeclass``."""

from __future__ import annotations

from kapi.machinery.each import each_of
from kapi.machinery.field import Path, duplicate
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.affinity import validate_tolerations
from kapi.resources.shared.compute import validate_resources
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_labels
from kapi.resources.shared.names import label_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.rules import Errors, check
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules
from kapi.resources.shared.volume_warnings import NODE_LABELS


def _handler(name: str) -> tuple[str, ...]:
    return label_name(name, False)


def _tolerations(tolerations: list[Object], path: Path, errors: Errors) -> None:
    validate_tolerations(tolerations, path, errors, PodOptions(is_pod=False))
    seen: set[tuple[Tree, ...]] = set()
    for toleration, here in each_of(path, tolerations):
        mark = tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if mark in seen:
            errors.append(duplicate(here, internal("Toleration", toleration)))
        seen.add(mark)


class RuntimeClassStrategy(PlainStrategy):
    namespaced = False
    qualified_finalizers = False
    allow_create_on_update = True
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)
    immutable = ("handler",)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        require("handler", then=check(_handler))(obj, Path(), errors, ctx)
        overhead, scheduling = obj.get("overhead"), obj.get("scheduling")
        if overhead is not None:
            validate_resources({"limits": overhead.get("podFixed") or {}}, Path("overhead"), errors)
        if scheduling is not None:
            path = Path("scheduling")
            validate_labels(scheduling.get("nodeSelector") or {}, path.child("nodeSelector"), errors)
            _tolerations(scheduling.get("tolerations") or [], path.child("tolerations"), errors)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [f"scheduling.nodeSelector: {NODE_LABELS[key]}" for key in selector if key in NODE_LABELS]


RUNTIME_CLASS = Resource(
    *type_meta("node.k8s.io/v1", "RuntimeClass"),
    strategy=RuntimeClassStrategy(),
    table=printing.table(
        printing.NAME, printing.column("Handler", lambda obj, now: obj.get("handler", "")), printing.AGE
    ),
)
