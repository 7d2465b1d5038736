"""Expressions about admission requests: their variables and types (upstream: apiserver ``admission/plugin/cel``)."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kapi.admission.interface import Attributes
from kapi.cel import errors as cel_errors
from kapi.cel.environment import PER_CALL_LIMIT, Environment, Program
from kapi.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, CelType, StructField, StructType, display, list_of, map_of
from kapi.machinery.gvk import GroupVersionKind, GroupVersionResource

Object = dict[str, Any]


class CompileError(ValueError):
    """An expression that cannot be used; the text is upstream's."""


class EvaluationError(ValueError):
    """An expression that failed for this request.  ``fatal``: the cost limit was hit and nothing more is evaluated."""

    def __init__(self, text: str, fatal: bool = False) -> None:
        super().__init__(text)
        self.fatal = fatal


def _struct(name: str, /, **fields: CelType) -> StructType:
    return StructType(f"kubernetes.{name}", {key: StructField(key, type_) for key, type_ in fields.items()})


_TEXTS = map_of(STRING, STRING)
_GVK = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_GVR = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER = _struct("UserInfo", username=STRING, uid=STRING, groups=list_of(STRING), extra=map_of(STRING, list_of(STRING)))
REQUEST = _struct(
    "AdmissionRequest",
    kind=_GVK,
    resource=_GVR,
    subResource=STRING,
    requestKind=_GVK,
    requestResource=_GVR,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_CONDITION = _struct(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
NAMESPACE = _struct(
    "Namespace",
    metadata=_struct(
        "NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=_TEXTS,
        annotations=_TEXTS,
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=list_of(STRING),
    ),
    spec=_struct("NamespaceSpec", finalizers=list_of(STRING)),
    status=_struct("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)
_STRUCTS = (REQUEST, _GVK, _GVR, _USER, NAMESPACE)


def _authorizer_type(name: str) -> CelType:
    """A type of the CEL library's authorizer, where it has one."""
    try:
        module = importlib.import_module("kapi.cel.library.authz")
    except ImportError:
        return DYN
    found: CelType = getattr(module, name, DYN)
    return found


@functools.cache
def environment(*, params: bool = False, namespace: bool = False, authorizer: bool = True) -> Environment:
    """The variables of an expression: always object, oldObject and request, others where they are offered."""
    variables: dict[str, CelType] = {"object": DYN, "oldObject": DYN, "request": REQUEST}
    if params:
        variables["params"] = DYN
    if namespace:
        variables["namespaceObject"] = NAMESPACE
    if authorizer:
        variables["authorizer"] = _authorizer_type("AUTHORIZER")
        variables["authorizer.requestResource"] = _authorizer_type("RESOURCE_CHECK")
    return Environment(variables, structs=_STRUCTS)


def request_object(
    attributes: Attributes, kind: GroupVersionKind, resource: GroupVersionResource
) -> Object:
    """What ``request`` is: the AdmissionRequest without its objects."""
    user = attributes.user
    asked: Object = {
        "kind": _named(kind, "kind"),
        "resource": _named(resource, "resource"),
        "requestKind": _named(attributes.kind, "kind"),
        "requestResource": _named(attributes.resource, "resource"),
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        },
        "dryRun": attributes.dry_run,
        "options": attributes.options or None,
        "subResource": attributes.subresource,
        "requestSubResource": attributes.subresource,
    }
    return asked


def _named(name: Any, last: str) -> Object:
    return {"group": name[0], "version": name[1], last: name[2]}


@dataclass(slots=True)
class Bindings:
    """The values of the variables for one request."""

    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        attributes: Attributes,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        obj: Object | None,
        old: Object | None,
        authorizer: Any = None,
        **more: Any,
    ) -> Bindings:
        values = {
            "object": obj,
            "oldObject": old,
            "request": request_object(attributes, kind, resource),
            **more,
        }
        if authorizer is not None:
            values["authorizer"] = authorizer
        return cls(values)


class Condition:
    """A compiled expression."""

    __slots__ = ("expression", "program")

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self.program = program

    def evaluate(self, bindings: Bindings | Mapping[str, Any], budget: int) -> tuple[Any, int]:
        """The value and what it cost.  Raises EvaluationError."""
        values = bindings.values if isinstance(bindings, Bindings) else bindings
        try:
            return self.program.run(values, min(budget, PER_CALL_LIMIT))
        except cel_errors.BudgetExceeded:
            if budget < PER_CALL_LIMIT:
                raise EvaluationError(
                    "validation failed due to running out of cost budget, no further validation rules will be run", True
                ) from None
            raise EvaluationError(
                f"expression '{self.expression}' resulted in error: operation cancelled: actual cost limit exceeded", True
            ) from None
        except cel_errors.EvaluationError as error:
            raise EvaluationError(f"expression '{self.expression}' resulted in error: {error}") from None


def compile_expression(expression: str, env: Environment, wanted: tuple[CelType, ...] = (BOOL,)) -> Condition:
    """Raises CompileError: it does not compile, or is of another type than one of ``wanted`` (none: any)."""
    try:
        program = env.compile(expression)
    except cel_errors.CompileErrors as error:
        raise CompileError(f"compilation failed: {error}") from None
    result = program.result_type
    if wanted and not any(result == type_ for type_ in wanted):
        if len(wanted) == 1:
            raise CompileError(f"must evaluate to {display(wanted[0])} but got {display(result)}")
        shown = " ".join(display(type_) for type_ in wanted)
        raise CompileError(f"must evaluate to one of [{shown}] but got {display(result)}")
    return Condition(expression, program)


def compile_condition(expression: str) -> Condition:
    """A match condition of a webhook.  Raises CompileError."""
    return compile_expression(expression, environment())
