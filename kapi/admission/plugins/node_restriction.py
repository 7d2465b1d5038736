"""NodeRestriction: a kubelet changes its own node and the pods on it, and no more (upstream: ``noderestriction``).

For its pods it may request tokens, for the audiences of their volumes (KEP-4935), and certificates (KEP-4317).
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator

from cryptography import x509

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin, denied
from kapi.authorization.interface import Attributes as Question
from kapi.authorization.node.references import node_identity, pod_config_maps, pod_secrets
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import aggregate
from kapi.machinery.gvk import GroupResource
from kapi.machinery.pem import signing_request
from kapi.machinery.status import NotFound, generic, not_found
from kapi.machinery.tree import Object
from kapi.resources.shared.internal import difference

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
_MIRROR = "kubernetes.io/config.mirror"
_LEASES = "kube-node-lease"
_RESTRICTED = "node-restriction.kubernetes.io"
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
        "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
    }
)  # fmt: skip
_KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
#: volumes that name an object of the API -> its name in a refusal
_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
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
    """The audiences of each volume.  Texts about missing objects are added to ``problems``."""

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


def check_pod_certificate(initializer: Initializer, attributes: Attributes, node: str) -> None:
    """Raises Forbidden, or an unspecific error where the cache may be behind and another try may succeed."""
    if not initializer.feature("PodCertificateRequest"):
        raise denied(attributes, "PodCertificateRequest feature gate is disabled")
    if attributes.operation != CREATE:
        raise denied(attributes, f"unexpected operation {attributes.operation}")
    if attributes.subresource:
        raise denied(attributes, f"unexpected subresource {attributes.subresource}")
    spec = (attributes.obj or {}).get("spec") or {}
    given, namespace = spec.get("nodeName") or "", attributes.namespace
    if given != node:
        why = f'PodCertificateRequest.Spec.NodeName="{given}", which is not the requesting node "{node}"'
        raise denied(attributes, why)

    def stored(plural: str, called: str, name: str, shown: str, where: str) -> Object:
        found = initializer.lister("", plural).get(where, name)
        if found is None:
            missing = not_found(GroupResource("", plural.removesuffix("s")), name).message
            raise generic(f'while retrieving {called} "{shown}" named in the PodCertificateRequest: {missing}')
        return found

    own = stored("nodes", "node", given, given, "")
    pod_name = f"{namespace}/{spec.get('podName') or ''}"
    _same_uid(
        own,
        spec,
        "nodeUID",
        f'for pod "{pod_name}" names node UID "{{0}}", inconsistent with the running node ("{{1}}")',
    )
    pod = stored("pods", "pod", spec.get("podName") or "", pod_name, namespace)
    _same_uid(
        pod, spec, "podUID", f'for pod "{pod_name}" contains pod UID ("{{0}}") which differs from running pod "{{1}}"'
    )
    pod_spec = pod.get("spec") or {}
    if (pod_spec.get("nodeName") or "") != given:
        why = f'pod "{pod_name}" is not running on node "{given}" named in the PodCertificateRequest'
        raise denied(attributes, why)
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        raise denied(attributes, f'pod "{pod_name}" is a mirror pod')
    account, runs_as = spec.get("serviceAccountName") or "", pod_spec.get("serviceAccountName") or ""
    if account != runs_as:
        why = (
            f'PodCertificateRequest for pod "{pod_name}" contains serviceAccountName ("{account}") that differs from '
            f'running pod ("{runs_as}")'
        )
        raise denied(attributes, why)
    found = stored("serviceaccounts", "service account", account, f"{namespace}/{account}", namespace)
    text = f'for pod "{pod_name}" names service account UID "{{0}}", which differs from the running service account ("{{1}}")'
    _same_uid(found, spec, "serviceAccountUID", text)


def _same_uid(obj: Object, spec: Object, field: str, text: str) -> None:
    uid, given = obj["metadata"].get("uid") or "", spec.get(field) or ""
    if given != uid:
        raise generic("PodCertificateRequest " + text.format(given, uid))


class NodeRestriction(Plugin):
    operations = frozenset({CREATE, UPDATE, DELETE})

    def __init__(self, initializer: Initializer) -> None:
        self.initializer = initializer
        self._checks: dict[GroupResource, Callable[[Attributes, str], Awaitable[None] | None]] = {
            GroupResource("", "pods"): self._pod,
            GroupResource("", "nodes"): self._node,
            GroupResource("", "persistentvolumeclaims"): self._claim,
            GroupResource("", "serviceaccounts"): self._service_account,
            GroupResource("coordination.k8s.io", "leases"): self._lease,
            GroupResource("storage.k8s.io", "csinodes"): self._csi_node,
            GroupResource("resource.k8s.io", "resourceslices"): self._slice,
            GroupResource("certificates.k8s.io", "certificatesigningrequests"): self._signing_request,
            GroupResource("certificates.k8s.io", "podcertificaterequests"): self._pod_certificate,
        }

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        check = self._checks.get(attributes.resource.group_resource)
        if check is None:
            return None
        node, is_node = node_identity(attributes.user)
        if not is_node:
            return None
        if not node:
            raise denied(attributes, f'could not determine node from user "{attributes.user.name}"')
        return check(attributes, node)

    # pods

    def _pod(self, attributes: Attributes, node: str) -> None:
        sub, operation = attributes.subresource, attributes.operation
        if sub == "status":
            self._pod_status(attributes, node)
        elif sub == "eviction":
            if operation != CREATE:
                raise denied(attributes, f"unexpected operation {operation}")
            name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
            if not name:
                raise denied(attributes, "could not determine pod from request data")
            if _node_of(self._stored_pod(attributes.namespace, name)) != node:
                raise denied(attributes, f"node {node} can only evict pods with spec.nodeName set to itself")
        elif sub:
            raise denied(attributes, f"unexpected pod subresource \"{sub}\", only 'status' and 'eviction' are allowed")
        elif operation == CREATE:
            self._new_pod(attributes, node)
        elif operation == DELETE:
            if _node_of(self._stored_pod(attributes.namespace, attributes.name)) != node:
                raise denied(attributes, f'node "{node}" can only delete pods with spec.nodeName set to itself')
        else:
            why = f'unexpected operation "{operation}", node "{node}" can only create and delete mirror pods'
            raise denied(attributes, why)

    def _stored_pod(self, namespace: str, name: str) -> Object:
        pod = self.initializer.lister("", "pods").get(namespace, name)
        if pod is None:
            raise not_found(GroupResource("", "pod"), name)
        return pod

    def _new_pod(self, attributes: Attributes, node: str) -> None:
        pod = attributes.obj or {}
        metadata = pod.get("metadata") or {}
        if _MIRROR not in (metadata.get("annotations") or {}):
            why = f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods'
            raise denied(attributes, why)
        if _node_of(pod) != node:
            raise denied(attributes, f'node "{node}" can only create pods with spec.nodeName set to itself')
        owners = metadata.get("ownerReferences") or []
        if len(owners) > 1:
            raise denied(attributes, f'node "{node}" can only create pods with a single owner reference set to itself')
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise denied(attributes, f'node "{node}" can only create pods with an owner reference set to itself')
        if not owner.get("controller"):
            why = f'node "{node}" can only create pods with a controller owner reference set to itself'
            raise denied(attributes, why)
        if owner.get("blockOwnerDeletion"):
            raise denied(attributes, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        stored = self.initializer.lister("", "nodes").get("", node)
        if stored is None:
            raise not_found(GroupResource("", "node"), node)
        uid, given = stored["metadata"].get("uid", ""), owner.get("uid", "")
        if given != uid:
            raise denied(attributes, f"node {node} UID mismatch: expected {given} got {uid}")
        referenced = _referenced(pod)
        if referenced:
            raise denied(attributes, f'node "{node}" can not create pods that reference {referenced}')

    @staticmethod
    def _pod_status(attributes: Attributes, node: str) -> None:
        if attributes.operation != UPDATE:
            raise denied(attributes, f'unexpected operation "{attributes.operation}"')
        new, old = attributes.obj or {}, attributes.old or {}
        if _node_of(old) != node:
            why = f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
            raise denied(attributes, why)
        if _labels(new) != _labels(old):
            raise denied(attributes, f'node "{node}" cannot update labels through pod status')
        before, after = old.get("status") or {}, new.get("status") or {}
        if (before.get("resourceClaimStatuses") or []) != (after.get("resourceClaimStatuses") or []):
            raise denied(attributes, f'node "{node}" cannot update resource claim statues')
        if before.get("extendedResourceClaimStatus") != after.get("extendedResourceClaimStatus"):
            raise denied(attributes, f'node "{node}" cannot update extended resource claim status')

    # nodes

    @staticmethod
    def _node(attributes: Attributes, node: str) -> None:
        if attributes.name != node:
            raise denied(attributes, f'node "{node}" is not allowed to modify node "{attributes.name}"')
        new, old = attributes.obj or {}, attributes.old or {}
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if attributes.operation == CREATE:
            if spec.get("configSource") is not None:
                raise denied(attributes, f'node "{node}" is not allowed to create pods with a non-nil configSource')
            if wrong := _forbidden_labels(_labels(new), {}):
                raise denied(attributes, f'node "{node}" is not allowed to set the following labels: {wrong}')
        elif attributes.operation == UPDATE:
            if spec.get("configSource") is not None and spec["configSource"] != before.get("configSource"):
                why = f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
                raise denied(attributes, why)
            if (spec.get("taints") or []) != (before.get("taints") or []):
                raise denied(attributes, f'node "{node}" is not allowed to modify taints')
            if _owners(new) != _owners(old):
                raise denied(attributes, f'node "{node}" is not allowed to modify ownerReferences')
            if wrong := _forbidden_labels(_labels(new), _labels(old)):
                raise denied(attributes, f"is not allowed to modify labels: {wrong}")

    # others

    @staticmethod
    def _claim(attributes: Attributes, node: str) -> None:
        if attributes.subresource != "status":
            raise denied(attributes, "may only update PVC status")
        if attributes.operation != UPDATE:
            raise denied(attributes, f'unexpected operation "{attributes.operation}"')
        old, new = _claim_rest(attributes.old or {}), _claim_rest(attributes.obj or {})
        if new != old:
            why = f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
            raise denied(attributes, f"{why}: {difference('PersistentVolumeClaim', old, new)}")

    def _service_account(self, attributes: Attributes, node: str) -> Awaitable[None] | None:
        if attributes.operation != CREATE or attributes.subresource != "token":
            return None
        spec = (attributes.obj or {}).get("spec") or {}
        ref = spec.get("boundObjectRef") or {}
        if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
            raise denied(attributes, "node requested token not bound to a pod")
        uid = ref.get("uid", "")
        if not uid:
            raise denied(attributes, "node requested token with a pod binding without a uid")
        pod = self._stored_pod(attributes.namespace, ref["name"])
        if uid != pod["metadata"].get("uid"):
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have "
                "been deleted and then recreated"
            )
            raise denied(attributes, why)
        if _node_of(pod) != node:
            raise denied(attributes, "node requested token bound to a pod scheduled on a different node")
        if self.initializer.feature("ServiceAccountNodeAudienceRestriction"):
            return check_audience(self.initializer, attributes, spec.get("audiences") or [], pod)
        return None

    @staticmethod
    def _lease(attributes: Attributes, node: str) -> None:
        if attributes.namespace != _LEASES:
            raise denied(attributes, f'can only access leases in the "{_LEASES}" system namespace')
        if _own_name(attributes) != node:
            raise denied(attributes, "can only access node lease with the same name as the requesting node")

    @staticmethod
    def _csi_node(attributes: Attributes, node: str) -> None:
        if _own_name(attributes) != node:
            raise denied(attributes, "can only access CSINode with the same name as the requesting node")

    @staticmethod
    def _slice(attributes: Attributes, node: str) -> None:
        if attributes.operation == UPDATE:
            return
        creating = attributes.operation == CREATE
        spec = ((attributes.obj if creating else attributes.old) or {}).get("spec") or {}
        if spec.get("nodeName") != node:
            verb = "create" if creating else "delete"
            raise denied(attributes, f"can only {verb} ResourceSlice with the same NodeName as the requesting node")

    def _pod_certificate(self, attributes: Attributes, node: str) -> None:
        check_pod_certificate(self.initializer, attributes, node)

    def _signing_request(self, attributes: Attributes, node: str) -> None:
        if attributes.operation != CREATE or self.initializer.feature("AllowInsecureKubeletCertificateSigningRequests"):
            return
        spec = (attributes.obj or {}).get("spec") or {}
        if spec.get("signerName") not in _KUBELET_SIGNERS:
            return
        try:
            subject = signing_request(base64.b64decode(spec.get("request") or "", validate=True)).subject
        except ValueError as error:
            raise denied(attributes, f"unable to parse csr: {error}") from None
        names = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        if [name.value for name in names][-1:] != [f"system:node:{node}"]:
            raise denied(attributes, f"can only create a node CSR with CN=system:node:{node}")


def _own_name(attributes: Attributes) -> str:
    if attributes.operation != CREATE:
        return attributes.name
    return str(((attributes.obj or {}).get("metadata") or {}).get("name", ""))


def _node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _labels(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _owners(obj: Object) -> list[Object]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def _forbidden_labels(new: dict[str, str], old: dict[str, str]) -> str:
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return ", ".join(sorted(key for key in changed if _is_forbidden(key)))


def _is_forbidden(key: str) -> bool:
    namespace = key.partition("/")[0] if "/" in key else ""
    if _within(namespace, _RESTRICTED):
        return True
    if not _within(namespace, "kubernetes.io") and not _within(namespace, "k8s.io"):
        return False
    return key not in _KUBELET_LABELS and not any(_within(namespace, own) for own in _KUBELET_NAMESPACES)


def _within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith("." + domain)


def _claim_rest(claim: Object) -> Object:
    """What a kubelet may not change of a claim."""
    free = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
    metadata = {k: v for k, v in entries(claim, "metadata") if k not in ("resourceVersion", "managedFields")}
    status = {k: v for k, v in entries(claim, "status") if k not in free}
    return {**claim, "metadata": metadata, "status": status}


def _referenced(pod: Object) -> str:
    """The kind of an API object that a pod names, or nothing."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if pod_secrets(pod):
        return "secrets"
    if pod_config_maps(pod):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in elements(spec, "volumes"):
        for field, text in _VOLUMES.items():
            if volume.get(field) is not None:
                return text
        for source in elements(volume, "projected", "sources"):
            for field, text in _PROJECTED.items():
                if source.get(field) is not None:
                    return text
    return ""
