"""RoleBinding (rbac.authorization.k8s.io/v1).  Escalation is checked by a guard (``kapi/registry/escalation.py``).

Upstream: ``pkg/apis/rbac/validation``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import each_of
from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_metadata, validate_metadata_update
from kapi.resources.shared.names import is_path_segment_name, path_segment_name
from kapi.resources.shared.rbac import GROUP, default_subjects, subject_names, validate_subject
from kapi.resources.shared.rules import Errors, check, not_supported
from kapi.resources.shared.rules import required as require
from kapi.resources.shared.strategies import PlainStrategy

_REFERENCE = Path("roleRef")


class RoleBindingStrategy(PlainStrategy):
    name_rule = staticmethod(path_segment_name)
    allow_create_on_update = True
    kinds: ClassVar[tuple[str, ...]] = ("Role", "ClusterRole")

    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        reference["apiGroup"] = reference.get("apiGroup") or GROUP
        default_subjects(obj.get("subjects") or [])

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        reference = obj.get("roleRef") or {}
        group, kind = reference.get("apiGroup", ""), reference.get("kind", "")
        if group != GROUP:
            errors.append(not_supported(_REFERENCE.child("apiGroup"), group, (GROUP,)))
        if kind not in self.kinds:
            errors.append(not_supported(_REFERENCE.child("kind"), kind, self.kinds))
        require("name", then=check(is_path_segment_name))(reference, _REFERENCE, errors, ctx)
        for subject, here in each_of(Path("subjects"), obj.get("subjects")):
            validate_subject(subject, here, errors, namespaced=self.namespaced)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        errors: Errors = []
        validate_metadata(obj, errors, namespaced=self.namespaced, name=path_segment_name)
        self.check(obj, old, errors, ctx)
        validate_metadata_update(obj, old, errors)
        reference, before = obj.get("roleRef") or {}, old.get("roleRef") or {}
        names = ("apiGroup", "kind", "name")
        if any(reference.get(name, "") != before.get(name, "") for name in names):
            # the internal type's fields, as Go writes a value that has no JSON names
            shown = {go: reference.get(name, "") for go, name in zip(("APIGroup", "Kind", "Name"), names, strict=True)}
            errors.append(invalid(_REFERENCE, shown, "cannot change roleRef"))
        return errors


def role(obj: Object, now: float) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def named(kind: str) -> printing.Reader:
    """The cell with the subjects of a kind."""
    return lambda obj, now: ", ".join(subject_names(obj.get("subjects") or [], kind))


RESOURCE = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    kind="RoleBinding",
    plural="rolebindings",
    namespaced=True,
    storage_version_hash="eGsCzGH6b1g=",
    strategy=RoleBindingStrategy(),
    table=printing.table(
        printing.NAME,
        printing.column(
            "Role",
            role,
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. "
            "If the RoleRef cannot be resolved, the Authorizer must return an error.",
        ),
        printing.AGE,
        printing.column("Users", named("User"), "Users in the roleBinding", priority=1),
        printing.column("Groups", named("Group"), "Groups in the roleBinding", priority=1),
        printing.column("ServiceAccounts", named("ServiceAccount"), "ServiceAccounts in the roleBinding", priority=1),
    ),
)
