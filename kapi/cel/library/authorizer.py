"""Authorization checks (upstream: apiserver ``cel/library/authz.go``).

The variable ``authorizer`` is an Authorizer with a synchronous function, which takes the attributes of a check and returns a
Decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from kapi.cel.errors import EvaluationError
from kapi.cel.functions import declarer
from kapi.cel.types import CelType, Value

AUTHORIZER_TYPE = CelType("opaque", "kubernetes.authorization.Authorizer")
PATH_CHECK = CelType("opaque", "kubernetes.authorization.PathCheck")
GROUP_CHECK = CelType("opaque", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = CelType("opaque", "kubernetes.authorization.ResourceCheck")
DECISION = CelType("opaque", "kubernetes.authorization.Decision")


@dataclass(frozen=True)
class Decision:
    """An authorizer's decision."""

    allowed: bool
    reason: str = ""
    error: str = ""
    cel_type: ClassVar[CelType] = DECISION


@dataclass(frozen=True)
class Check:
    """The attributes of a check.  ``service_account`` is (namespace, name) if it is for another user."""

    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    verb: str = ""
    field_selector: str | None = None
    label_selector: str | None = None
    service_account: tuple[str, str] | None = None


Decide = Callable[[Check], Decision]


@dataclass(frozen=True)
class Authorizer:
    """The value of the variable ``authorizer``."""

    decide: Decide
    question: Check = Check()
    cel_type: ClassVar[CelType] = AUTHORIZER_TYPE


@dataclass(frozen=True)
class PathCheck(Authorizer):
    cel_type: ClassVar[CelType] = PATH_CHECK


@dataclass(frozen=True)
class GroupCheck(Authorizer):
    cel_type: ClassVar[CelType] = GROUP_CHECK


@dataclass(frozen=True)
class ResourceCheck(Authorizer):
    cel_type: ClassVar[CelType] = RESOURCE_CHECK


def resource_check(decide: Decide, question: Check) -> ResourceCheck:
    """The value of ``authorizer.requestResource``."""
    return ResourceCheck(decide, question)


def _path(value: Authorizer, path: str) -> PathCheck:
    if not path:
        raise EvaluationError("path must not be empty")
    return PathCheck(value.decide, replace(value.question, path=path))


def _resource(value: GroupCheck, resource: str) -> ResourceCheck:
    if not resource:
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(value.decide, replace(value.question, resource=resource))


def _with(field: str) -> Callable[[Value, str], ResourceCheck]:
    return lambda value, text: ResourceCheck(value.decide, replace(value.question, **{field: text}))


def _service_account(value: Authorizer, namespace: str, name: str) -> Authorizer:
    from kapi.machinery.names import dns_label, dns_subdomain

    if dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return Authorizer(value.decide, replace(value.question, service_account=(namespace, name)))


def _check(value: Authorizer, verb: str) -> Decision:
    return value.decide(replace(value.question, verb=verb))


d = declarer(
    Authorizer=AUTHORIZER_TYPE,
    PathCheck=PATH_CHECK,
    GroupCheck=GROUP_CHECK,
    ResourceCheck=RESOURCE_CHECK,
    Decision=DECISION,
)

AUTHORIZER = [
    d("path", "authorizer_path", "Authorizer.(string) PathCheck", _path),
    d(
        "group",
        "authorizer_group",
        "Authorizer.(string) GroupCheck",
        lambda value, group: GroupCheck(value.decide, replace(value.question, group=group)),
    ),
    d("serviceAccount", "authorizer_serviceaccount", "Authorizer.(string, string) Authorizer", _service_account),
    d("resource", "groupcheck_resource", "GroupCheck.(string) ResourceCheck", _resource),
    d("subresource", "resourcecheck_subresource", "ResourceCheck.(string) ResourceCheck", _with("subresource")),
    d("namespace", "resourcecheck_namespace", "ResourceCheck.(string) ResourceCheck", _with("namespace")),
    d("name", "resourcecheck_name", "ResourceCheck.(string) ResourceCheck", _with("name")),
    d("fieldSelector", "authorizer_fieldselector", "ResourceCheck.(string) ResourceCheck", _with("field_selector")),
    d("labelSelector", "authorizer_labelselector", "ResourceCheck.(string) ResourceCheck", _with("label_selector")),
    d("check", "pathcheck_check", "PathCheck.(string) Decision", _check),
    d("check", "resourcecheck_check", "ResourceCheck.(string) Decision", _check),
    d("errored", "decision_errored", "Decision.() bool", lambda value: bool(value.error)),
    d("error", "decision_error", "Decision.() string", lambda value: value.error),
    d("allowed", "decision_allowed", "Decision.() bool", lambda value: value.allowed),
    d("reason", "decision_reason", "Decision.() string", lambda value: value.reason),
]
