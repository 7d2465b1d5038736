"""OwnerReferencesPermissionEnforcement: giving an object owners needs the permission to delete it (upstream: ``gc``)."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.admission.versions import row_of
from kapi.authorization.interface import Attributes as Question
from kapi.authorization.interface import Decision, Verdict
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object

_FREE = {("", "pods", "status")}


class OwnerReferencesPermissionEnforcement(InitializedPlugin):
    operations = frozenset({CREATE, UPDATE})

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        resource = attributes.resource
        if attributes.obj is None or (resource.group, resource.resource, attributes.subresource) in _FREE:
            return None
        new, old = _owners(attributes.obj), _owners(attributes.old)
        return None if new == old else self._check(attributes, new, old)

    async def _check(self, attributes: Attributes, new: list[Object], old: list[Object]) -> None:
        user, resource = attributes.user, attributes.resource
        if attributes.operation != CREATE:
            question = Question(
                user,
                "delete",
                namespace=attributes.namespace,
                group=resource.group,
                version=resource.version,
                resource=resource.resource,
                subresource=attributes.subresource,
                name=attributes.name,
            )
            verdict = await self.initializer.authorize(question)
            _demand(verdict, attributes, "cannot set an ownerRef on a resource you can't delete")
        blocked_before = {owner.get("uid") for owner in old if owner.get("blockOwnerDeletion")}
        blocking = [
            owner for owner in new if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked_before
        ]
        everything = Question(user, "update", group="*", version="*", resource="*", subresource="finalizers", name="*")
        if not blocking or await self.initializer.is_allowed(everything):
            return
        for owner in blocking:
            await self._may_block(attributes, owner)

    async def _may_block(self, attributes: Attributes, owner: Object) -> None:
        group, _, version = str(owner.get("apiVersion", "")).rpartition("/")
        found = self._resource(GroupVersionKind(group, version, owner.get("kind", "")))
        if found is None:
            why = (
                f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f"{owner.get('apiVersion', '')} Kind {owner.get('kind', '')}: no matches for kind "
                f'"{owner.get("kind", "")}" in version "{owner.get("apiVersion", "")}"'
            )
            raise denied(attributes, why)
        plural, namespaced = found
        question = Question(
            attributes.user,
            "update",
            namespace=attributes.namespace if namespaced else "",
            group=group,
            version=version,
            resource=plural,
            subresource="finalizers",
            name=owner.get("name", ""),
        )
        verdict = await self.initializer.authorize(question)
        what = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
        _demand(verdict, attributes, what)

    def _resource(self, kind: GroupVersionKind) -> tuple[str, bool] | None:
        row = row_of(kind)
        if row is not None:
            return row.plural, row.namespaced
        for definition in self.initializer.lister("apiextensions.k8s.io", "customresourcedefinitions").list():
            spec = definition.get("spec") or {}
            names = spec.get("names") or {}
            served = any(v.get("name") == kind.version and v.get("served") for v in spec.get("versions") or ())
            if spec.get("group") == kind.group and names.get("kind") == kind.kind and served:
                return names.get("plural", ""), spec.get("scope") == "Namespaced"
        return None


def _demand(verdict: Verdict, attributes: Attributes, what: str) -> None:
    """Raises Forbidden with the authorizer's reason unless it allows."""
    if verdict.decision is not Decision.ALLOW:
        raise denied(attributes, f"{what}: {verdict.reason}, {verdict.error or '<nil>'}")


def _owners(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
