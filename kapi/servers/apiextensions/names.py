"""Decisions about the accepted names of a definition and about its conditions, without I/O.

Upstream: apiextensions ``controller/status/naming_controller.go``, ``nonstructuralschema``, ``apiapproval``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from twisted.internet.defer import DeferredLock

from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.golang import aggregate
from kapi.machinery.tree import Object, Tree
from kapi.resources.apiextensions.internal import condition, internal_spec, is_true, schema_of

_MAX_INDEXED_NAMES = 1000  # names of a definition; a definition with more has a set of its own
_KEYS = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_NAMING = (("plural", "PluralConflict", False), ("singular", "SingularConflict", False))
_KINDS = (("kind", "KindConflict", True), ("listKind", "ListKindConflict", True))


def set_condition(crd: Object, new: Object, now: str) -> None:
    """Adds or changes a condition, in place; the transition time changes only with the status."""
    conditions = crd["status"].get("conditions") or []
    crd["status"]["conditions"] = conditions
    fresh = {
        "type": new["type"],
        "status": new["status"],
        "lastTransitionTime": new.get("lastTransitionTime") or now,
        "reason": new["reason"],
        "message": new["message"],
    }
    for index, item in enumerate(conditions):
        if item.get("type") == new["type"]:
            if item.get("status") == new["status"]:
                fresh["lastTransitionTime"] = item.get("lastTransitionTime") or now
            conditions[index] = fresh
            return
    conditions.append(fresh)


class NameIndex:
    """The names of one group's resources (or kinds) and the definitions that use them.

    A definition with thousands of short names has a set of its own: to add them to the index would take too long in one piece,
    and other code must not see only half of them.
    """

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._large: dict[str, frozenset[str]] = {}
        #: definition -> a token of its latest call of ``update``, while that makes a large set
        self._updating: dict[str, object] = {}

    def update(self, crd: str, names: tuple[str, ...]) -> None:
        """Sets the names of a definition.  Of two overlapping calls the one that began later counts."""
        many: frozenset[str] | None = None
        call = self._updating[crd] = object()
        if len(names) > _MAX_INDEXED_NAMES:
            many = frozenset(elements(names))  # another call may run meanwhile
        if self._updating.get(crd) is not call:
            return
        del self._updating[crd]
        old = self._names.get(crd, ())
        if old == names:
            return
        if self._large.pop(crd, None) is None:
            for name in set(old):  # singular and plural may be equal
                self._holders[name].discard(crd)
                if not self._holders[name]:
                    del self._holders[name]
        self._names[crd] = names
        if many is not None:
            self._large[crd] = many
            return
        for name in names:
            self._holders.setdefault(name, set()).add(crd)

    def used_by_others(self, crd: str, name: str) -> bool:
        """Whether another definition than ``crd`` uses a name."""
        if self._holders.get(name, set()) - {crd}:
            return True
        return any(name in names for other, names in self._large.items() if other != crd)


class GroupNames:
    """The names in use in one group, kept up to date so that a new definition is not compared with all others."""

    def __init__(self) -> None:
        self.resources = NameIndex()
        self.kinds = NameIndex()
        self.waiting: set[str] = set()  # definitions without accepted names
        self.naming = DeferredLock()  # names are accepted for one definition at a time

    def update(self, crd: Object) -> None:
        """Records the state of a definition."""
        own, names = crd["metadata"]["name"], (crd.get("status") or {}).get("acceptedNames") or {}
        resources = (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))
        self.resources.update(own, tuple(filter(None, resources)))
        self.kinds.update(own, tuple(name for name in (names.get("kind"), names.get("listKind")) if name))
        if is_true(crd, "NamesAccepted"):
            self.waiting.discard(own)
        else:
            self.waiting.add(own)

    def remove(self, crd: str) -> None:
        self.resources.update(crd, ())
        self.kinds.update(crd, ())
        self.waiting.discard(crd)


def accept_names(crd: Object, in_use: GroupNames, now: str) -> bool:
    """Updates the accepted names and two conditions, in place; False when nothing changed."""
    desired, state = crd["spec"].get("names") or {}, crd.setdefault("status", {})
    accepted_before = state.get("acceptedNames") or {}
    if tree.equal(_plain(desired), _plain(accepted_before)):
        return False
    own = crd["metadata"]["name"]
    accepted = dict(accepted_before)
    reason, message = "", ""
    for name, conflict, is_kind in (*_NAMING, ("shortNames", "ShortNamesConflict", False), *_KINDS):
        others = functools.partial((in_use.kinds if is_kind else in_use.resources).used_by_others, own)
        problem = _conflict(desired.get(name), accepted_before.get(name), others)
        if problem:
            reason, message = conflict, problem
        else:
            accepted[name] = desired.get(name)
    accepted["categories"] = desired.get("categories")
    naming = {
        "type": "NamesAccepted",
        "status": "False" if reason else "True",
        "reason": reason or "NoConflicts",
        "message": message or "no conflicts found",
    }
    established = dict(
        condition(crd, "Established")
        or {"type": "Established", "status": "False", "reason": "NotAccepted", "message": "not all names are accepted"}
    )
    if established["status"] != "True" and not reason:
        established = {
            "type": "Established",
            "status": "False",
            "reason": "Installing",
            "message": "the initial names have been accepted",
        }
    before = tree.copy(state)
    state["acceptedNames"] = _plain(accepted)
    set_condition(crd, naming, now)
    set_condition(crd, established, now)
    return not tree.equal(state, before)


def _plain(names: Object) -> Object:
    found = {key: names[key] for key in _KEYS if names.get(key)}
    found.setdefault("plural", "")
    found.setdefault("kind", "")
    return found


def _conflict(desired: Tree, accepted_before: Tree, taken: Callable[[str], bool]) -> str:
    if isinstance(desired, list) or isinstance(accepted_before, list):
        known = set(elements(accepted_before))
        problems = [f'"{name}" is already in use' for name in elements(desired) if name not in known and taken(name)]
        return aggregate(problems)
    if (desired or "") == (accepted_before or "") or not desired or not taken(desired):
        return ""
    return f'"{desired}" is already in use'


def establish(crd: Object, now: str) -> bool:
    """Sets the condition Established once the names are accepted; False when nothing changed.

    A definition whose conversion has a CA bundle that cannot be read is not established.
    """
    naming, established = condition(crd, "NamesAccepted"), condition(crd, "Established") or {}
    if naming is None or naming.get("status") != "True" or established.get("status") == "True":
        return False
    from kapi.resources.apiextensions.version_rules import bad_bundle

    webhook = ((crd.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    if bad_bundle(webhook.get("clientConfig")):
        status, reason, message = "False", "InvalidCABundle", "The conversion webhook CABundle is invalid"
    else:
        status, reason, message = "True", "InitialNamesAccepted", "the initial names have been accepted"
    new = {"type": "Established", "status": status, "reason": reason, "message": message}
    if all(established.get(key) == new[key] for key in new):
        return False
    set_condition(crd, new, now)
    return True


def may_not_be_structural(crd: Object) -> bool:
    """Whether the schemas must be checked: those of current definitions are structural by validation."""
    spec = crd.get("spec") or {}
    return condition(crd, "NonStructuralSchema") is not None or bool(spec.get("preserveUnknownFields"))


def structural_condition(crd: Object, now: str) -> bool:
    """Updates NonStructuralSchema of a definition from before schemas had to be structural; False without change."""
    if not may_not_be_structural(crd):
        return False
    from kapi.schema.structural.structure import conversion_error, structural_errors

    old = condition(crd, "NonStructuralSchema")
    spec = internal_spec(crd.get("spec") or {})
    problems: list[str] = []
    if spec.get("preserveUnknownFields"):
        problems.append("spec.preserveUnknownFields: Invalid value: true: must be false")
    places = [(Path("spec").child("validation"), spec.get("validation"))]
    for index, version in enumerate(spec.get("versions") or ()):
        places.append((Path("spec").child("versions").index(index).child("schema"), version.get("schema")))
    for path, holder in places:
        schema = schema_of(holder)
        if schema is None:
            continue
        text = conversion_error(schema)
        if text:
            problems.append(text)
        else:
            problems.extend(str(error) for error in structural_errors(path.child("openAPIV3Schema"), schema))
    if not problems:
        if old is None:
            return False
        crd["status"]["conditions"] = [
            item for item in crd["status"]["conditions"] if item["type"] != "NonStructuralSchema"
        ]
        return True
    message = aggregate(problems)
    if old is not None and old.get("status") == "True" and old.get("message") == message:
        return False
    set_condition(
        crd, {"type": "NonStructuralSchema", "status": "True", "reason": "Violations", "message": message}, now
    )
    return True


def approval_condition(crd: Object, now: str) -> bool:
    """Updates KubernetesAPIApprovalPolicyConformant of a definition in a community group; False without change."""
    from kapi.resources.apiextensions.approval import approval, is_protected

    if not is_protected((crd.get("spec") or {}).get("group", "")):
        return False
    state, reason = approval(crd["metadata"].get("annotations"))
    status, word = {
        "Invalid": ("False", "InvalidAnnotation"),
        "Missing": ("False", "MissingAnnotation"),
        "Approved": ("True", "ApprovedAnnotation"),
        "Bypassed": ("False", "UnapprovedAnnotation"),
    }[state]
    new = {"type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": word, "message": reason}
    old = condition(crd, new["type"])
    if old is not None and all(old.get(key) == new[key] for key in new):
        return False
    set_condition(crd, new, now)
    return True
