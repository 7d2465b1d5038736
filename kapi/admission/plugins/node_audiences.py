"""For which audiences a node may request tokens: those of the volumes of the pod (upstream: ``noderestriction``, KEP 4935)."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes, denied
from kapi.authorization.interface import Attributes as Question
from kapi.machinery.each import elements
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import NotFound, not_found
from kapi.machinery.tree import Object

#: volumes of old plugins -> the CSI driver that replaces them
_MIGRATED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}


async def check_audience(initializer: Initializer, attributes: Attributes, audiences: list[str], pod: Object) -> None:
    """Raises Forbidden unless a volume of the pod needs tokens for the audience, or the node is authorized for it."""
    if len(audiences) > 1:
        raise denied(attributes, "node may only request 0 or 1 audiences")
    audience = audiences[0] if audiences else ""
    problems: list[str] = []
    if any(audience in permitted for permitted in _permitted_audiences(initializer, pod, problems)):
        return
    if problems:
        text = aggregate(problems)
        raise denied(attributes, f'error validating audience "{audience}": {text}')
    question = Question(
        attributes.user,
        "request-serviceaccounts-token-audience",
        namespace=attributes.namespace,
        version="v1",
        resource=audience,
        name=attributes.name,
    )
    if not await initializer.is_allowed(question):
        why = (
            f'audience "{audience}" not found in pod spec volume, {attributes.user.name} is not authorized to request '
            "tokens for this audience"
        )
        raise denied(attributes, why)


def _permitted_audiences(initializer: Initializer, pod: Object, problems: list[str]) -> Iterator[set[str]]:
    """The audiences of one volume after the other.  Texts about missing objects are added to ``problems``."""

    def stored(group: str, plural: str, name: str, namespace: str = "") -> Object:
        found = initializer.lister(group, plural).get(namespace, name)
        if found is None:
            raise not_found(GroupResource(group, plural.removesuffix("s")), name)
        return found

    def driver_of_claim(name: str) -> str:
        claim = stored("", "persistentvolumeclaims", name, pod["metadata"].get("namespace", ""))
        disk = stored("", "persistentvolumes", (claim.get("spec") or {}).get("volumeName") or "").get("spec") or {}
        return _driver_in(disk)

    def driver_of(volume: Object) -> str:
        if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
            return driver_of_claim(f"{pod['metadata']['name']}-{volume.get('name', '')}")
        if volume.get("persistentVolumeClaim") is not None:
            return driver_of_claim(volume["persistentVolumeClaim"].get("claimName") or "")
        return _driver_in(volume)

    for volume in elements(pod, "spec", "volumes"):
        for source in elements(volume, "projected", "sources"):
            token = source.get("serviceAccountToken")
            if token is not None:
                yield {token.get("audience") or ""}
        try:
            driver = driver_of(volume)
            if driver:
                spec = stored("storage.k8s.io", "csidrivers", driver).get("spec") or {}
                yield {request.get("audience") or "" for request in elements(spec, "tokenRequests")}
        except NotFound as problem:
            problems.append(problem.message)


def _driver_in(spec: Object) -> str:
    """The driver that serves a volume or a persistent volume with this spec."""
    if spec.get("csi") is not None:
        return str(spec["csi"].get("driver") or "")
    return next((driver for field, driver in _MIGRATED.items() if spec.get(field) is not None), "")
