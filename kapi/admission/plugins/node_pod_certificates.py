"""For which pods a node may request certificates: those that run on it (upstream: ``noderestriction``, KEP 4317)."""

from __future__ import annotations

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, Attributes, denied
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import generic, not_found
from kapi.machinery.tree import Object

_MIRROR = "kubernetes.io/config.mirror"


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
