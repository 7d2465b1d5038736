"""Which requests a flow schema is about (upstream: ``util/flowcontrol/rule.go``)."""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo

Matcher = Callable[[RequestInfo, UserInfo], bool]
_ACCOUNT = "system:serviceaccount:"


def schema_matcher(spec: Object) -> Matcher:
    """A test of requests, compiled from a FlowSchema's rules."""
    rules = [_rule(rule) for rule in spec.get("rules") or ()]

    def matches(info: RequestInfo, user: UserInfo) -> bool:
        return any(rule(info, user) for rule in rules)

    return matches


def distinguisher(spec: Object) -> str:
    """``ByUser``, ``ByNamespace`` or ""."""
    return str((spec.get("distinguisherMethod") or {}).get("type", ""))


def flow_of(method: str, info: RequestInfo, user: UserInfo) -> str:
    """The distinguisher of a flow: the user, the namespace, or nothing."""
    if method == "ByUser":
        return user.name
    return info.namespace if method == "ByNamespace" else ""


def _rule(rule: Object) -> Matcher:
    subjects = [_subject(subject) for subject in rule.get("subjects") or ()]
    resources = [_resource_rule(item) for item in rule.get("resourceRules") or ()]
    others = [_url_rule(item) for item in rule.get("nonResourceRules") or ()]

    def matches(info: RequestInfo, user: UserInfo) -> bool:
        if not any(subject(user) for subject in subjects):
            return False
        return any(item(info) for item in (resources if info.is_resource else others))

    return matches


def _subject(subject: Object) -> Callable[[UserInfo], bool]:
    kind = subject.get("kind")
    if kind == "User" and subject.get("user"):
        name = subject["user"].get("name", "")
        return lambda user: name in ("*", user.name)
    if kind == "Group" and subject.get("group"):
        group = subject["group"].get("name", "")
        return lambda user: group == "*" or group in user.groups
    if kind == "ServiceAccount" and subject.get("serviceAccount"):
        account = subject["serviceAccount"]
        prefix = f"{_ACCOUNT}{account.get('namespace', '')}:"
        name = account.get("name", "")
        if name == "*":
            return lambda user: user.name.startswith(prefix)
        return lambda user: user.name == prefix + name
    return lambda user: False


def _one_of(values: list[str] | None) -> Callable[[str], bool]:
    if values == ["*"]:
        return lambda value: True
    known = frozenset(values or ())
    return known.__contains__


def _resource_rule(rule: Object) -> Callable[[RequestInfo], bool]:
    verb, group = _one_of(rule.get("verbs")), _one_of(rule.get("apiGroups"))
    resource, namespace = _one_of(rule.get("resources")), _one_of(rule.get("namespaces"))
    cluster = bool(rule.get("clusterScope"))

    def matches(info: RequestInfo) -> bool:
        name = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        if not (verb(info.verb) and resource(name) and group(info.group)):
            return False
        return namespace(info.namespace) if info.namespace else cluster

    return matches


def _url_rule(rule: Object) -> Callable[[RequestInfo], bool]:
    verb = _one_of(rule.get("verbs"))
    urls = rule.get("nonResourceURLs") or ()
    exact = frozenset(urls)
    everything = "*" in exact
    prefixes = []
    for url in urls:
        prefix = url.removesuffix("*")
        prefixes.append(prefix if prefix.endswith("/") else prefix + "/")
    starts = tuple(prefixes)

    def matches(info: RequestInfo) -> bool:
        return verb(info.verb) and (everything or info.path in exact or info.path.startswith(starts))

    return matches
