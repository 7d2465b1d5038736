"""Kinds of versions that are not served but that upstream's scheme still knows.

The error for an object of one of them names its version; it is not an unknown kind.

Upstream: the ``install`` packages of the legacy scheme.
"""

from __future__ import annotations

from kapi.machinery.gvk import GroupKind, GroupVersionKind

_APPS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision")
_REGISTERED: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "v1"): ("List", "PodStatusResult", "RangeAllocation", "SerializedReference"),
    ("apps", "v1beta1"): ("Deployment", "StatefulSet", "ControllerRevision", "Scale"),
    ("apps", "v1beta2"): (*_APPS, "Scale"),
    ("authentication.k8s.io", "v1alpha1"): ("SelfSubjectReview",),
    ("authentication.k8s.io", "v1beta1"): ("TokenReview", "SelfSubjectReview"),
    ("authorization.k8s.io", "v1beta1"): (
        "SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectRulesReview",
    ),
    ("autoscaling", "v2beta1"): ("HorizontalPodAutoscaler",),
    ("autoscaling", "v2beta2"): ("HorizontalPodAutoscaler",),
    ("batch", "v1beta1"): ("CronJob",),
    ("certificates.k8s.io", "v1beta1"): ("CertificateSigningRequest",),
    ("coordination.k8s.io", "v1beta1"): ("Lease",),
    ("discovery.k8s.io", "v1beta1"): ("EndpointSlice",),
    ("events.k8s.io", "v1beta1"): ("Event",),
    ("extensions", "v1beta1"): ("DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"): ("FlowSchema", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "v1beta1"): ("Ingress", "IngressClass"),
    ("node.k8s.io", "v1alpha1"): ("RuntimeClass",),
    ("node.k8s.io", "v1beta1"): ("RuntimeClass",),
    ("policy", "v1beta1"): ("PodDisruptionBudget", "Eviction"),
    ("rbac.authorization.k8s.io", "v1alpha1"): ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1beta1"): ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    ("scheduling.k8s.io", "v1alpha1"): ("PriorityClass",),
    ("scheduling.k8s.io", "v1beta1"): ("PriorityClass",),
    ("storage.k8s.io", "v1alpha1"): ("VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"),
    ("storage.k8s.io", "v1beta1"): ("StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "CSIStorageCapacity"),
    ("admissionregistration.k8s.io", "v1beta1"): (
        "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
}  # fmt: skip
#: (former group, kind) -> current group
_MOVED = {
    ("extensions", "DaemonSet"): "apps",
    ("extensions", "Deployment"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("extensions", "Ingress"): "networking.k8s.io",
    ("extensions", "NetworkPolicy"): "networking.k8s.io",
    ("extensions", "Scale"): "autoscaling",
    ("apps", "Scale"): "autoscaling",
    ("events.k8s.io", "Event"): "",
}
#: kinds of meta/v1, which every scheme knows in any version
_UNVERSIONED = frozenset(("Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"))
_OPTIONS = frozenset(("ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions"))


def is_meta(kind: GroupVersionKind) -> bool:
    """Whether the scheme for options of requests knows a kind."""
    return kind.kind in _UNVERSIONED or kind.group == "meta.k8s.io" and kind.kind in _OPTIONS


def is_registered(kind: GroupVersionKind) -> bool:
    """Whether the scheme knows a kind that is not in Kubernetes' published definitions."""
    kinds = _REGISTERED.get((kind.group, kind.version), ())
    return kind.kind in kinds or kind.kind.removesuffix("List") in kinds


def internal_kind(kind: GroupVersionKind) -> GroupKind:
    """The group and kind of the internal version to which upstream converts an object."""
    return GroupKind(_MOVED.get((kind.group, kind.kind), kind.group), kind.kind)
