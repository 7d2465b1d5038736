"""Indexes roles by name and bindings by subject, and follows them by watches: a check reads only the bindings of the user.

Upstream scans every binding, and walks the rules of its role, on each check (``pkg/registry/rbac/validation/rule.go``).  The
decisions are the same.  Here the rules of a large role are indexed when the role is read, so that a request of a user with a
role of 3 MB costs no more than other requests.

The index of a logical cluster is built at the first request of a user who is not in system:masters: most test clusters are used
only by their administrators, and the default roles are most of the memory of an empty cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from twisted.internet.defer import Deferred, execute
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.covers import HeldRules
from kapi.authorization.rbac.policy import PolicyRule, any_allows, rules_of
from kapi.machinery.each import elements, entries
from kapi.machinery.freeing import drain
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object
from kapi.process.driver import Call
from kapi.request.user import UserInfo
from kapi.runtime.interface import Client

_MAX_UNINDEXED_RULES = 64
log = Logger()
GROUP = "rbac.authorization.k8s.io"
_USER, _GROUP = "u:", "g:"
_MAX_PARTS_AT_ONCE = 1000  # rules with their values, or subjects, that are read without a pause
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


class RoleRules:
    """``rules`` are in the order of the role."""

    __slots__ = ("rules", "_index")

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = rules
        self._index = HeldRules(rules) if len(rules) > _MAX_UNINDEXED_RULES else None
        if self._index is not None:
            self._index.prepare()

    @classmethod
    def of(cls, role: Object) -> RoleRules:
        """The rules of a Role or ClusterRole."""
        return cls(rules_of(role))

    @property
    def large(self) -> bool:
        return self._index is not None

    def parts(self) -> list[object]:
        """The objects that take most of its memory, so that they can be freed in steps."""
        return [*self.rules, *(() if self._index is None else self._index.parts())]

    def allows(self, attributes: Attributes) -> bool:
        return any_allows(self.rules, attributes) if self._index is None else self._index.allows(attributes)


class Binding(msgspec.Struct, eq=False, gc=False):
    """The parts of a RoleBinding or ClusterRoleBinding that decisions need; its tree takes many times the memory."""

    name: str
    namespace: str
    role_kind: str
    role_name: str

    @classmethod
    def of(cls, obj: Object) -> Binding:
        metadata, ref = obj["metadata"], obj["roleRef"]
        return cls(metadata["name"], metadata.get("namespace", ""), ref.get("kind") or "", ref.get("name", ""))


class Grant(msgspec.Struct, eq=False, gc=False):
    """A binding with one of its subjects."""

    binding: Binding
    kind: str  # the subject's kind
    key: str  # the subject's key
    position: int  # of the subject in the binding: the reason names the first subject that applies

    @property
    def source(self) -> str:
        """``RoleBinding "name/namespace" of Role "r" to User "u"``."""
        binding = self.binding
        name, kind = (
            (f"{binding.name}/{binding.namespace}", "RoleBinding")
            if binding.namespace
            else (binding.name, "ClusterRoleBinding")
        )
        if self.kind == "ServiceAccount":
            home, _, account = self.key.removeprefix(_USER + SERVICE_ACCOUNT_PREFIX).partition(":")
            subject = f"{account}/{home}"
        else:
            subject = self.key[len(_USER) :]
        return f"{kind} {quote(name)} of {binding.role_kind} {quote(binding.role_name)} to {self.kind} {quote(subject)}"


#: the grants of one subject: mostly a single one, otherwise by the binding's name
Held = Grant | dict[str, Grant]


def _grants_in(held: Held) -> Iterable[Grant]:
    """The grants, as a copy: a binding may be added or removed during a walk in slices."""
    return (held,) if isinstance(held, Grant) else list(held.values())


def _subject_key(subject: Object, namespace: str) -> tuple[str, str]:
    """The kind and key of a subject; both are "" for a subject that matches no user."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return "User", f"{_USER}{name}"
    if kind == "Group":
        return "Group", f"{_GROUP}{name}"
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        if home:
            return "ServiceAccount", f"{_USER}{SERVICE_ACCOUNT_PREFIX}{home}:{name}"
    return "", ""


def _size(rules: Sequence[Object]) -> int:
    """The number of rules and of their values; above ``_MAX_PARTS_AT_ONCE`` rules the values are not counted."""
    if len(rules) > _MAX_PARTS_AT_ONCE:
        return len(rules)
    return len(rules) + sum(len(values) for rule in rules for values in rule.values())


class RoleMissing(Exception):
    """A binding refers to a role that does not exist (``role``), or to an unknown kind of role."""

    def __init__(self, text: str, role: str = "") -> None:
        super().__init__(text)
        self.role = role


class PolicyIndex:
    """``generation`` grows with every change; a cached decision is valid for its generation.

    The rules of a large role and the subjects of a large binding are read by ``call``; until the end of this the previous ones
    are used, as with an informer that lags.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.call: Call = execute
        self._reading: dict[tuple[str, str], Object] = {}  # roles whose rules are being read
        self._waiting: list[Deferred[None]] = []  # callers of ``loaded``
        self._roles: dict[tuple[str, str], RoleRules] = {}  # (namespace or "", name)
        self._grants: dict[str, dict[str, Held]] = {}  # namespace or "" -> subject
        #: large bindings whose subjects are being indexed: their newest state, None for a deleted binding
        self._indexing: dict[tuple[str, str], Object | None] = {}
        self._subjects: dict[tuple[str, str], list[str]] = {}  # (namespace, binding) -> its indexed subjects

    def follow(self, client: Client) -> Callable[[], None]:
        """Lists and watches the four resources; returns the function that stops it."""
        stops = [
            client.resource(GROUP, plural).watch(handler)
            for plural, handler in (
                ("clusterroles", self.on_role),
                ("roles", self.on_role),
                ("clusterrolebindings", self.on_binding),
                ("rolebindings", self.on_binding),
            )
        ]

        def stop() -> None:
            for each in stops:
                each()

        return stop

    def on_role(self, event: str, obj: Object, old: Object | None = None) -> None:
        self.generation += 1
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self._reading.pop(key, None)
        if event == "DELETED":
            self._set_rules(key, None)
        elif _size(obj.get("rules") or ()) <= _MAX_PARTS_AT_ONCE:
            self._set_rules(key, RoleRules.of(obj))
        else:
            self._reading[key] = obj
            read = Deferred.fromCoroutine(self._read_rules(key, obj))
            read.addErrback(self._read_failed, key, obj).addCallback(self._notify_if_loaded)

    async def _read_rules(self, key: tuple[str, str], role: Object) -> None:
        rules = await self.call(RoleRules.of, role)
        if self._reading.get(key) is role:  # otherwise the role has changed meanwhile
            del self._reading[key]
            self._set_rules(key, rules)
            self.generation += 1

    def _set_rules(self, key: tuple[str, str], rules: RoleRules | None) -> None:
        """Sets the rules of a role, or removes it."""
        old = self._roles.pop(key, None)
        if rules is not None:
            self._roles[key] = rules
        if old is not None and old.large:
            parts = old.parts()
            del old
            freed = Deferred.fromCoroutine(self._free(parts))
            freed.addErrback(lambda failure: log.failure("the rules of a role are freed at once", failure))

    async def _free(self, parts: list[object]) -> None:
        await self.call(drain, parts)

    def _read_failed(self, failure: Failure, key: tuple[str, str], role: Object) -> None:
        """Makes the role allow nothing, since its rules are unknown."""
        log.failure("the rules of {role} cannot be read", failure, role="/".join(key))
        if self._reading.get(key) is role:
            del self._reading[key]
            self._set_rules(key, None)
            self.generation += 1

    async def loaded(self) -> None:
        """Fires when the rules and subjects of all roles and bindings seen so far are indexed."""
        if self._reading or self._indexing:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting

    def _notify_if_loaded(self, _: None) -> None:
        if not self._reading and not self._indexing:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def on_binding(self, event: str, obj: Object, old: Object | None = None) -> None:
        self.generation += 1
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        binding = None if event == "DELETED" else obj
        if key in self._indexing:
            self._indexing[key] = binding
        elif max(len(obj.get("subjects") or ()), len(self._subjects.get(key, ()))) > _MAX_PARTS_AT_ONCE:
            self._indexing[key] = binding
            indexed = Deferred.fromCoroutine(self._index_large(key))
            indexed.addErrback(self._index_failed, key).addCallback(self._notify_if_loaded)
        else:
            self._index(key, binding)

    async def _index_large(self, key: tuple[str, str]) -> None:
        """Indexes the newest state of a binding, again whenever it has changed meanwhile."""
        binding: Object | None = {}
        while self._indexing[key] is not binding:
            binding = self._indexing[key]
            await self.call(self._index, key, binding)
            self.generation += 1
        del self._indexing[key]

    def _index_failed(self, failure: Failure, key: tuple[str, str]) -> None:
        """Makes the binding apply to no user, since its subjects are unknown."""
        log.failure("the subjects of the binding {binding} cannot be read", failure, binding="/".join(key))
        del self._indexing[key]
        self._index(key, None)
        self.generation += 1

    def _index(self, key: tuple[str, str], binding: Object | None) -> None:
        """Indexes in steps.  Subjects that stay are always indexed: requests come between the steps."""
        namespace, name = key
        grants: dict[str, Grant] = {}
        if binding is not None:
            held = Binding.of(binding)
            for position, subject in enumerate(elements(binding, "subjects")):
                kind, subject_key = _subject_key(subject, namespace)
                if subject_key and subject_key not in grants:
                    grants[subject_key] = Grant(held, kind, subject_key, position)
        before = self._subjects.pop(key, [])
        if binding is not None:
            self._subjects[key] = [*before, *grants]  # old and new subjects, until all are indexed
        for subject_key, grant in entries(grants):
            self._add(namespace, subject_key, grant)
        for subject_key in elements(before):
            if subject_key not in grants:
                self._remove(namespace, subject_key, name)
        if binding is not None:
            self._subjects[key] = list(grants)

    def _add(self, namespace: str, subject_key: str, grant: Grant) -> None:
        by_subject = self._grants.setdefault(namespace, {})
        held, name = by_subject.get(subject_key), grant.binding.name
        if isinstance(held, dict):
            held.pop(name, None)
            held[name] = grant
        elif held is None or held.binding.name == name:
            by_subject[subject_key] = grant
        else:
            by_subject[subject_key] = {held.binding.name: held, name: grant}

    def _remove(self, namespace: str, subject_key: str, name: str) -> None:
        by_subject = self._grants.get(namespace, {})
        held = by_subject.get(subject_key)
        if isinstance(held, dict):
            held.pop(name, None)
            if held:
                return
        elif held is None or held.binding.name != name:
            return
        del by_subject[subject_key]
        if not by_subject:
            del self._grants[namespace]

    def role_rules(self, kind: str, name: str, namespace: str) -> RoleRules:
        """The rules of the role that a roleRef names by kind and name.  Raises RoleMissing."""
        if kind == "ClusterRole":
            rules = self._roles.get(("", name))
        elif kind == "Role":
            rules = self._roles.get((namespace, name)) if namespace else None
        else:
            raise RoleMissing(f"unsupported role reference kind: {quote(kind)}")
        if rules is None:
            raise RoleMissing(f"{kind.lower()}.{GROUP} {quote(name)} not found", name)
        return rules

    def grants_for(self, user: UserInfo, namespace: str) -> Iterator[tuple[Grant, str]]:
        """Every binding that applies to the user, with the namespace of its role; cluster-wide ones first."""
        keys = (_USER + user.name, *(_GROUP + group for group in elements(user.groups)))
        for scope in ("", namespace) if namespace else ("",):
            by_subject = self._grants.get(scope)
            if not by_subject:
                continue
            held = [grants for grants in (by_subject.get(key) for key in elements(keys)) if grants]
            if len(held) == 1:
                for grant in _grants_in(held[0]):
                    yield grant, scope
            elif held:
                first: dict[str, Grant] = {}
                for grants in held:
                    for grant in _grants_in(grants):
                        known = first.get(grant.binding.name)
                        if known is None or grant.position < known.position:
                            first[grant.binding.name] = grant
                for grant in first.values():
                    yield grant, scope


class LazyPolicyIndex(PolicyIndex):
    """Lists all roles and bindings through ``client`` when it is first used, and watches them from then on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client: Client | None = client

    def role_rules(self, kind: str, name: str, namespace: str) -> RoleRules:
        self._read()
        return super().role_rules(kind, name, namespace)

    def grants_for(self, user: UserInfo, namespace: str) -> Iterator[tuple[Grant, str]]:
        self._read()
        return super().grants_for(user, namespace)

    def _read(self) -> None:
        """Lists the objects, once.  The first events of the watches are the same objects, and change nothing."""
        client, self._client = self._client, None
        if client is None:
            return
        for plural in ("clusterrolebindings", "clusterroles", "rolebindings", "roles"):
            take = self.on_role if plural.endswith("roles") else self.on_binding
            for obj in client.resource(GROUP, plural).lister.list():
                take("ADDED", obj)
        self.follow(client)
