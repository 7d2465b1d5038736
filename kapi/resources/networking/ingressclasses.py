"""IngressClass (networking.k8s.io/v1).

Upstream: ``pkg/apis/networking/validation``, ``pkg/registry/networking/ingressclass``."""

from __future__ import annotations

from kapi.machinery.field import Path, forbidden
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.networking.ingresses import REFERENCE
from kapi.resources.shared import printing
from kapi.resources.shared.names import label_name
from kapi.resources.shared.paths import domain_prefixed_path
from kapi.resources.shared.rules import Errors, check, fits, not_supported, present
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_SPEC = Path("spec")
_MAX_CONTROLLER = 250  # bytes
_DEFAULT_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"


def _parameters(parameters: Object, path: Path, errors: Errors) -> None:
    REFERENCE(parameters, path, errors, None)
    scope, namespace = parameters["scope"], parameters.get("namespace")  # by default Cluster
    if scope == "Namespace":
        if present(namespace, path, errors, "namespace", detail="`parameters.scope` is set to 'Namespace'"):
            check(label_name)(namespace, path.child("namespace"), errors, None)
    elif scope != "Cluster":
        errors.append(not_supported(path.child("scope"), scope, ("Cluster", "Namespace")))
    elif namespace is not None:
        errors.append(forbidden(path.child("namespace"), "`parameters.scope` is set to 'Cluster'"))


class IngressClassStrategy(PlainStrategy):
    namespaced = False
    generation_parts = ("spec",)
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE, UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    immutable = ("spec.controller",)

    def default(self, obj: Object) -> None:
        parameters = obj.setdefault("spec", {}).get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = "Cluster"

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        controller, path = spec.get("controller") or "", _SPEC.child("controller")
        fits(len(controller.encode()), _MAX_CONTROLLER, path, errors)
        errors.extend(domain_prefixed_path(controller, path))
        if spec.get("parameters") is not None:
            _parameters(spec["parameters"], _SPEC.child("parameters"), errors)


def _name(obj: Object, now: float) -> str:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_ANNOTATION) == "true"
    return printing.name(obj, now) + (" (default)" if default else "")


def _reference(obj: Object, now: float) -> str:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is None:
        return printing.NONE
    group = parameters.get("apiGroup")
    kind = parameters.get("kind", "")
    return f"{kind if group is None else kind + '.' + group}/{parameters.get('name', '')}"


RESOURCE = Resource(
    *type_meta("networking.k8s.io/v1", "IngressClass"),
    strategy=IngressClassStrategy(),
    table=printing.table(
        printing.column("Name", _name, printing.NAME_TEXT, format="name"),
        printing.column(
            "Controller", printing.of_spec("controller"), "Controller that is responsible for handling this class"
        ),
        printing.column("Parameters", _reference, "A reference to a resource with additional parameters"),
        printing.AGE,
    ),
)
