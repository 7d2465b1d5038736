"""Which of a definition's names are accepted, and its conditions: pure decisions (upstream: apiextensions
``controller/status/naming_controller.go``, ``nonstructuralschema``, ``apiapproval``)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from twisted.internet.defer import DeferredLock

from kapi.machinery import tree
from kapi.machinery.checkpoint import steps
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, Tree
from kapi.resources.apiextensions.internal import condition, internal_spec, is_true, schema_of

_MAX_NAMES_AT_ONCE = 1000  # names of a definition
_KEYS = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_NAMING = (("plural", "PluralConflict", False), ("singular", "SingularConflict", False))
_KINDS = (("kind", "KindConflict", True), ("listKind", "ListKindConflict", True))


def set_condition(crd: Object, new: Object, now: str) -> None:
    """Adds or changes a condition, in place; the transition time moves with the status only."""
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


class Taken:
    """The names of one group's resources (or kinds) with the definitions that hold them.

    Who comes with thousands of short names is asked for each name instead: they would be too many to write down at once, and
    half of them may not be seen.
    """

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._many: dict[str, frozenset[str]] = {}
        self._begun: dict[
            str, object
        ] = {}  # by definition: the call of ``hold`` that began last, while it makes such a set

    def hold(self, crd: str, names: tuple[str, ...]) -> None:
        """A definition holds these names from now on, and no others.  Of two calls the one that begins later counts."""
        many: frozenset[str] | None = None
        call = self._begun[crd] = object()
        if len(names) > _MAX_NAMES_AT_ONCE:
            many = frozenset(steps(names))  # others may call meanwhile
        if self._begun.get(crd) is not call:
            return
        del self._begun[crd]
        old = self._held.get(crd, ())
        if old == names:
            return
        if self._many.pop(crd, None) is None:
            for name in set(old):  # a singular may well be its plural
                self._holders[name].discard(crd)
                if not self._holders[name]:
                    del self._holders[name]
        self._held[crd] = names
        if many is not None:
            self._many[crd] = many
            return
        for name in names:
            self._holders.setdefault(name, set()).add(crd)

    def by_others(self, crd: str, name: str) -> bool:
        """Whether another definition than ``crd`` holds a name."""
        if self._holders.get(name, set()) - {crd}:
            return True
        return any(name in held for other, held in self._many.items() if other != crd)


class GroupNames:
    """What the definitions of one group hold, kept up to date so that a new one need not look at all."""

    def __init__(self) -> None:
        self.resources = Taken()
        self.kinds = Taken()
        self.waiting: set[str] = set()  # definitions whose names were not accepted
        self.naming = DeferredLock()  # one of them is given names at a time

    def hold(self, crd: Object) -> None:
        """Takes a definition as it is now."""
        own, names = crd["metadata"]["name"], (crd.get("status") or {}).get("acceptedNames") or {}
        resources = (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ()))
        self.resources.hold(own, tuple(filter(None, resources)))
        self.kinds.hold(own, tuple(name for name in (names.get("kind"), names.get("listKind")) if name))
        if is_true(crd, "NamesAccepted"):
            self.waiting.discard(own)
        else:
            self.waiting.add(own)

    def drop(self, crd: str) -> None:
        self.resources.hold(crd, ())
        self.kinds.hold(crd, ())
        self.waiting.discard(crd)


def accept_names(crd: Object, taken: GroupNames, now: str) -> bool:
    """Brings accepted names and the two conditions up to date, in place; False when nothing changed."""
    wanted, state = crd["spec"].get("names") or {}, crd.setdefault("status", {})
    held = state.get("acceptedNames") or {}
    if tree.equal(_plain(wanted), _plain(held)):
        return False
    own = crd["metadata"]["name"]
    accepted = dict(held)
    reason, message = "", ""
    for name, conflict, is_kind in (*_NAMING, ("shortNames", "ShortNamesConflict", False), *_KINDS):
        others = functools.partial((taken.kinds if is_kind else taken.resources).by_others, own)
        problem = _conflict(wanted.get(name), held.get(name), others)
        if problem:
            reason, message = conflict, problem
        else:
            accepted[name] = wanted.get(name)
    accepted["categories"] = wanted.get("categories")
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


def _conflict(wanted: Tree, held: Tree, taken: Callable[[str], bool]) -> str:
    if isinstance(wanted, list) or isinstance(held, list):
        known = set(steps(held or ()))
        problems = [f'"{name}" is already in use' for name in steps(wanted or ()) if name not in known and taken(name)]
        return problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]" if problems else ""
    if (wanted or "") == (held or "") or not wanted or not taken(wanted):
        return ""
    return f'"{wanted}" is already in use'


def establish(crd: Object, now: str) -> bool:
    """Names are accepted: the resource may be served from now on."""
    naming, established = condition(crd, "NamesAccepted"), condition(crd, "Established")
    if naming is None or naming.get("status") != "True" or (established or {}).get("status") == "True":
        return False
    set_condition(
        crd,
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
        now,
    )
    return True


def may_not_be_structural(crd: Object) -> bool:
    """Whether schemas have to be looked at: validation takes no other ones than structural ones."""
    spec = crd.get("spec") or {}
    return condition(crd, "NonStructuralSchema") is not None or bool(spec.get("preserveUnknownFields"))


def structural_condition(crd: Object, now: str) -> bool:
    """The condition NonStructuralSchema, for definitions stored before schemas had to be structural."""
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
    message = problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"
    if old is not None and old.get("status") == "True" and old.get("message") == message:
        return False
    set_condition(
        crd, {"type": "NonStructuralSchema", "status": "True", "reason": "Violations", "message": message}, now
    )
    return True


def approval_condition(crd: Object, now: str) -> bool:
    """The condition KubernetesAPIApprovalPolicyConformant of definitions in community groups."""
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
