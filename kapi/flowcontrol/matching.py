"""Matches requests with flow schemas (upstream: ``util/flowcontrol/rule.go``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo
from kapi.request.user import UserInfo

Matcher = Callable[[RequestInfo, UserInfo], bool]
_ACCOUNT = "system:serviceaccount:"

_Rule = Callable[[RequestInfo], bool]


def schema_matcher(spec: Object) -> Matcher:
    """Compiles a FlowSchema's rules into a test, which evaluates only rules whose subjects may match the user."""
    rules = _Rules()
    for rule in elements(spec, "rules"):
        rules.add(rule)
    return rules.match


class _Rules:
    """The rules of a schema by their subjects."""

    def __init__(self) -> None:
        self._of_all: list[_Rule] = []
        self._of_users: dict[str, list[_Rule]] = {}
        self._of_groups: dict[str, list[_Rule]] = {}
        self._of_accounts: dict[str, list[_Rule]] = {}  # all accounts of a namespace, by the prefix of their user names

    def add(self, rule: Object) -> None:
        compiled = _rule(rule)
        for subject in elements(rule, "subjects"):
            place = self._place(subject)
            if place is not None and (not place or place[-1] is not compiled):
                place.append(compiled)

    def _place(self, subject: Object) -> list[_Rule] | None:
        """The list of rules about a subject; None for an invalid subject."""
        kind = subject.get("kind")
        if kind == "User" and subject.get("user"):
            name = subject["user"].get("name", "")
            return self._of_all if name == "*" else self._of_users.setdefault(name, [])
        if kind == "Group" and subject.get("group"):
            name = subject["group"].get("name", "")
            return self._of_all if name == "*" else self._of_groups.setdefault(name, [])
        if kind == "ServiceAccount" and subject.get("serviceAccount"):
            account = subject["serviceAccount"]
            start, name = f"{_ACCOUNT}{account.get('namespace', '')}:", account.get("name", "")
            if name == "*":
                return self._of_accounts.setdefault(start, [])
            return self._of_users.setdefault(start + name, [])
        return None

    def match(self, info: RequestInfo, user: UserInfo) -> bool:
        """Whether one of the rules matches the request."""
        return any(rule(info) for rules in self._about(user) for rule in rules)

    def _about(self, user: UserInfo) -> Iterator[list[_Rule]]:
        yield self._of_all
        name = user.name
        if name in self._of_users:
            yield self._of_users[name]
        if self._of_groups:
            for group in user.groups:
                if group in self._of_groups:
                    yield self._of_groups[group]
        if self._of_accounts and name.startswith(_ACCOUNT):
            start = name[: name.find(":", len(_ACCOUNT)) + 1]
            if start in self._of_accounts:
                yield self._of_accounts[start]


def distinguisher_method(spec: Object) -> str:
    """``ByUser``, ``ByNamespace`` or ""."""
    return str((spec.get("distinguisherMethod") or {}).get("type", ""))


def flow_distinguisher(method: str, info: RequestInfo, user: UserInfo) -> str:
    """The flow distinguisher by the method of ``distinguisher_method``: the user's name, the namespace, or ""."""
    if method == "ByUser":
        return user.name
    return info.namespace if method == "ByNamespace" else ""


def _rule(rule: Object) -> _Rule:
    """Compiles the part of a rule that is about requests, without its subjects."""
    resources = [_resource_rule(item) for item in elements(rule, "resourceRules")]
    others = [_url_rule(item) for item in elements(rule, "nonResourceRules")]
    return lambda info: any(item(info) for item in (resources if info.is_resource else others))


def _one_of(values: list[str] | None) -> Callable[[str], bool]:
    if values == ["*"]:
        return lambda value: True
    known = frozenset(elements(values))
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
    exact = frozenset(elements(urls))
    everything = "*" in exact
    prefixes = []
    for url in elements(urls):
        prefix = url.removesuffix("*")
        prefixes.append(prefix if prefix.endswith("/") else prefix + "/")
    starts = tuple(prefixes)

    def matches(info: RequestInfo) -> bool:
        return verb(info.verb) and (everything or info.path in exact or info.path.startswith(starts))

    return matches
