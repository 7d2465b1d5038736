"""PodGroupWorkloadExists: a PodGroup's template is there, in the Workload that it names (alpha, off by default)."""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, Plugin, denied
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_GROUP = "scheduling.k8s.io"


class PodGroupWorkloadExists(Plugin):
    gate = "GenericWorkload"
    operations = frozenset({CREATE})
    resources = frozenset({"podgroups"})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if attributes.resource.resource != "podgroups" or attributes.resource.group != _GROUP or attributes.subresource:
            return None
        spec = (attributes.obj or {}).get("spec") or {}
        reference = (spec.get("podGroupTemplateRef") or {}).get("workload")
        if reference is None:
            return None
        found = self.initializer.lister(_GROUP, "workloads").get(
            attributes.namespace, reference.get("workloadName", "")
        )
        if found is None:
            return self._look(attributes, reference)
        _check(attributes, reference, found)
        return None

    async def _look(self, attributes: Attributes, reference: Object) -> None:
        """The Workload may be newer than the cache."""
        name = reference.get("workloadName", "")
        found = await self.initializer.live(_GROUP, "workloads", name, attributes.namespace)
        if found is None:
            raise denied(attributes, f"PodGroup rejected: Workload {quote(name)} not found")
        _check(attributes, reference, found)


def _check(attributes: Attributes, reference: Object, workload: Object) -> None:
    template_name = reference.get("podGroupTemplateName", "")
    templates = (workload.get("spec") or {}).get("podGroupTemplates") or []
    if all(template.get("name", "") != template_name for template in templates):
        name = quote(reference.get("workloadName", ""))
        raise denied(
            attributes, f"PodGroup rejected: PodGroupTemplate {quote(template_name)} not found in Workload {name}"
        )
