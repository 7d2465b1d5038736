"""Plugins of PodGroups, which schedule pods as a gang (alpha, off by default).

PodGroupWorkloadExists: a PodGroup's template must exist in the Workload that it names.  JobValidation: the parallelism of a Job
must not change while its pods are scheduled as a gang.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.machinery import tree
from kapi.machinery.each import elements
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_GROUP = "scheduling.k8s.io"


class PodGroupWorkloadExists(InitializedPlugin):
    gate = "GenericWorkload"
    operations = frozenset({CREATE})
    resources = frozenset({"podgroups"})

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
        """Reads the Workload, which may be newer than the cache."""
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


class JobValidation(InitializedPlugin):
    gate = "GenericWorkload"
    operations = frozenset({UPDATE})
    resources = frozenset({"jobs"})

    def validate(self, attributes: Attributes) -> None:
        job, old = attributes.obj, attributes.old
        if attributes.resource.group != "batch" or attributes.subresource or job is None or old is None:
            return
        if tree.dig(job, "spec", "parallelism") == tree.dig(old, "spec", "parallelism"):
            return
        for group in self._groups(attributes.namespace, old):
            if tree.dig(group, "spec", "schedulingPolicy", "gang") is not None:
                name = quote(group["metadata"]["name"])
                raise denied(
                    attributes, f"cannot change parallelism for a Job referencing gang-scheduled PodGroup {name}"
                )

    def _groups(self, namespace: str, job: Object) -> list[Object]:
        """The PodGroup that the Job's template names, otherwise all PodGroups that the Job controls."""
        groups = self.initializer.lister(_GROUP, "podgroups")
        name = tree.dig(job, "spec", "template", "spec", "schedulingGroup", "podGroupName")
        if name is not None:
            found = groups.get(namespace, name)
            return [] if found is None else [found]
        uid = job["metadata"].get("uid")
        return [group for group in groups.list(namespace) if _controller(group) == uid]


def _controller(obj: Object) -> str | None:
    """The uid of the object's controller."""
    owners = elements(obj["metadata"], "ownerReferences")
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)
