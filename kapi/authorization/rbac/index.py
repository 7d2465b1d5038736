"""Roles by name and bindings by subject, kept by watch, so that a check looks only at what binds the user.

Upstream scans every binding on each check (``pkg/registry/rbac/validation/rule.go``); the outcome is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred, execute
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.authorization.rbac.role_rules import RoleRules, free
from kapi.client.interface import Client
from kapi.machinery.checkpoint import steps
from kapi.machinery.field import quote
from kapi.machinery.tree import Object
from kapi.request.call import Call
from kapi.request.user import UserInfo

log = Logger()
GROUP = "rbac.authorization.k8s.io"
_USER, _GROUP = "u:", "g:"
_MAX_PARTS_AT_ONCE = 1000  # rules and values in them, and subjects, that are read in one piece
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


class Grant(NamedTuple):
    """A binding as one of its subjects holds it."""

    binding: Object
    subject: Object
    position: int  # of the subject in the binding: the first that applies names the reason

    @property
    def source(self) -> str:
        """``RoleBinding "name/namespace" of Role "r" to User "u"``."""
        metadata, ref, subject = self.binding["metadata"], self.binding["roleRef"], self.subject
        namespace = metadata.get("namespace", "")
        name, kind = (
            (f"{metadata['name']}/{namespace}", "RoleBinding")
            if namespace
            else (metadata["name"], "ClusterRoleBinding")
        )
        who = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            who = f"{who}/{subject.get('namespace') or namespace}"
        return (
            f"{kind} {quote(name)} of {ref.get('kind', '')} {quote(ref.get('name', ''))} "
            f"to {subject.get('kind', '')} {quote(who)}"
        )


def _subject_key(subject: Object, namespace: str) -> str:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return f"{_USER}{name}"
    if kind == "Group":
        return f"{_GROUP}{name}"
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return f"{_USER}{SERVICE_ACCOUNT_PREFIX}{home}:{name}" if home else ""
    return ""


def _size(rules: Sequence[Object]) -> int:
    """How many rules there are, and values in them: beyond ``_MAX_PARTS_AT_ONCE`` nobody counts."""
    if len(rules) > _MAX_PARTS_AT_ONCE:
        return len(rules)
    return len(rules) + sum(len(values) for rule in rules for values in rule.values())


class RoleMissing(Exception):
    """A binding names a role that is not there (``role``), or a kind of role that does not exist."""

    def __init__(self, text: str, role: str = "") -> None:
        super().__init__(text)
        self.role = role


class PolicyIndex:
    """What RBAC knows.  ``generation`` grows with every change, so that caches of decisions notice it.

    The rules of a large role and the subjects of a large binding are read by ``call``; until that is done those it had count, as
    with an informer that lags.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.call: Call = execute
        self._reading: dict[tuple[str, str], Object] = {}  # roles whose rules are being read
        self._waiting: list[Deferred[None]] = []  # for all of them
        self._roles: dict[tuple[str, str], RoleRules] = {}  # (namespace or "", name)
        self._grants: dict[str, dict[str, dict[str, Grant]]] = {}  # namespace or "" -> subject -> binding name
        #: large bindings whose subjects are being filed: their newest state, None when they are gone
        self._filing: dict[tuple[str, str], Object | None] = {}
        self._subjects: dict[tuple[str, str], list[str]] = {}  # (namespace, binding) -> subjects it was filed under

    def follow(self, client: Client) -> Callable[[], None]:
        """Reads and follows those of the four resources that are served; returns the function that stops it."""
        served = {plural for group, plural, _ in client.resources() if group == GROUP}
        stops = [
            client.resource(GROUP, plural).watch(handler)
            for plural, handler in (
                ("clusterroles", self.on_role),
                ("roles", self.on_role),
                ("clusterrolebindings", self.on_binding),
                ("rolebindings", self.on_binding),
            )
            if plural in served
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
            self._take(key, None)
        elif _size(obj.get("rules") or ()) <= _MAX_PARTS_AT_ONCE:
            self._take(key, RoleRules.of(obj))
        else:
            self._reading[key] = obj
            read = Deferred.fromCoroutine(self._read_rules(key, obj))
            read.addErrback(self._not_read, key, obj).addCallback(self._look)

    async def _read_rules(self, key: tuple[str, str], role: Object) -> None:
        rules = await self.call(RoleRules.of, role)
        if self._reading.get(key) is role:  # else it has changed meanwhile
            del self._reading[key]
            self._take(key, rules)
            self.generation += 1

    def _take(self, key: tuple[str, str], rules: RoleRules | None) -> None:
        """The role has these rules, or is gone."""
        old = self._roles.pop(key, None)
        if rules is not None:
            self._roles[key] = rules
        if old is not None and old.large:
            parts = old.parts()
            del old
            freed = Deferred.fromCoroutine(self._free(parts))
            freed.addErrback(lambda failure: log.failure("the rules of a role are freed at once", failure))

    async def _free(self, parts: list[object]) -> None:
        await self.call(free, parts)

    def _not_read(self, failure: Failure, key: tuple[str, str], role: Object) -> None:
        """Nobody knows what the role allows: it allows nothing."""
        log.failure("the rules of {role} cannot be read", failure, role="/".join(key))
        if self._reading.get(key) is role:
            del self._reading[key]
            self._take(key, None)
            self.generation += 1

    async def loaded(self) -> None:
        """Done when the rules and subjects of all roles and bindings seen so far are known."""
        if self._reading or self._filing:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting

    def _look(self, _: None) -> None:
        if not self._reading and not self._filing:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)

    def on_binding(self, event: str, obj: Object, old: Object | None = None) -> None:
        self.generation += 1
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        binding = None if event == "DELETED" else obj
        if key in self._filing:
            self._filing[key] = binding
        elif max(len(obj.get("subjects") or ()), len(self._subjects.get(key, ()))) > _MAX_PARTS_AT_ONCE:
            self._filing[key] = binding
            filed = Deferred.fromCoroutine(self._file_large(key))
            filed.addErrback(self._not_filed, key).addCallback(self._look)
        else:
            self._file(key, binding)

    async def _file_large(self, key: tuple[str, str]) -> None:
        """Files the newest state of a binding, and again when it has changed meanwhile."""
        binding: Object | None = {}
        while self._filing[key] is not binding:
            binding = self._filing[key]
            await self.call(self._file, key, binding)
            self.generation += 1
        del self._filing[key]

    def _not_filed(self, failure: Failure, key: tuple[str, str]) -> None:
        """Nobody knows whom the binding names: nobody has it."""
        log.failure("the subjects of the binding {binding} cannot be read", failure, binding="/".join(key))
        del self._filing[key]
        self._file(key, None)
        self.generation += 1

    def _file(self, key: tuple[str, str], binding: Object | None) -> None:
        """Who has a binding and is to keep it has it all the time: others may ask at each step."""
        namespace, name = key
        grants: dict[str, Grant] = {}
        for position, subject in enumerate(steps((binding or {}).get("subjects") or ())):
            who = _subject_key(subject, namespace)
            if who and binding is not None:
                grants.setdefault(who, Grant(binding, subject, position))
        before = self._subjects.pop(key, [])
        if binding is not None:
            self._subjects[key] = [*before, *grants]  # until it is known that all are filed
        for who, grant in steps(grants.items()):
            held = self._grants.setdefault(namespace, {}).setdefault(who, {})
            held.pop(name, None)
            held[name] = grant
        for who in steps(before):
            if who not in grants:
                self._take_back(namespace, who, name)
        if binding is not None:
            self._subjects[key] = list(grants)

    def _take_back(self, namespace: str, who: str, name: str) -> None:
        by_subject = self._grants.get(namespace, {})
        held = by_subject.get(who)
        if held is not None:
            held.pop(name, None)
            if not held:
                del by_subject[who]
                if not by_subject:
                    del self._grants[namespace]

    def role_rules(self, ref: Object, namespace: str) -> RoleRules:
        """The rules a roleRef stands for.  Raises RoleMissing."""
        kind, name = ref.get("kind"), ref.get("name", "")
        if kind == "ClusterRole":
            rules = self._roles.get(("", name))
        elif kind == "Role":
            rules = self._roles.get((namespace, name)) if namespace else None
        else:
            raise RoleMissing(f"unsupported role reference kind: {quote(kind or '')}")
        if rules is None:
            raise RoleMissing(f"{str(kind).lower()}.{GROUP} {quote(name)} not found", name)
        return rules

    def grants_for(self, user: UserInfo, namespace: str) -> Iterator[tuple[Grant, str]]:
        """Every binding that applies to the user, with the namespace of its role; cluster-wide ones first."""
        keys = (_USER + user.name, *(_GROUP + group for group in steps(user.groups)))
        for scope in ("", namespace) if namespace else ("",):
            by_subject = self._grants.get(scope)
            if not by_subject:
                continue
            held = [grants for grants in (by_subject.get(key) for key in steps(keys)) if grants]
            if len(held) == 1:
                for grant in held[0].values():
                    yield grant, scope
            elif held:
                first: dict[str, Grant] = {}
                for grants in held:
                    for name, grant in grants.items():
                        known = first.get(name)
                        if known is None or grant.position < known.position:
                            first[name] = grant
                for grant in first.values():
                    yield grant, scope
