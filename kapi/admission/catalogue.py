"""All admission plugins in the order in which they run, and which of them run when nothing is configured.

Upstream: ``pkg/kubeapiserver/options/plugins.go`` (AllOrderedPlugins, DefaultOffAdmissionPlugins).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Plugin
from kapi.machinery.tree import Tree

#: name -> (module under kapi.admission, on by default)
PLUGINS: dict[str, tuple[str, bool]] = {
    "AlwaysAdmit": ("plugins.always_admit", False),
    "NamespaceAutoProvision": ("plugins.namespace_auto_provision", False),
    "NamespaceLifecycle": ("plugins.namespace_lifecycle", True),
    "NamespaceExists": ("plugins.namespace_exists", False),
    "LimitPodHardAntiAffinityTopology": ("plugins.limit_pod_hard_anti_affinity_topology", False),
    "LimitRanger": ("plugins.limit_ranger", True),
    "ServiceAccount": ("plugins.service_account", True),
    "NodeRestriction": ("plugins.node_restriction", False),
    "TaintNodesByCondition": ("plugins.taint_nodes_by_condition", True),
    "AlwaysPullImages": ("plugins.always_pull_images", False),
    "ImagePolicyWebhook": ("plugins.image_policy_webhook", False),
    "PodSecurity": ("podsecurity.plugin", True),
    "PodNodeSelector": ("plugins.pod_node_selector", False),
    "Priority": ("plugins.priority", True),
    "DefaultTolerationSeconds": ("plugins.default_toleration_seconds", True),
    "PodTolerationRestriction": ("plugins.pod_toleration_restriction", False),
    "EventRateLimit": ("plugins.event_rate_limit", False),
    "ExtendedResourceToleration": ("plugins.extended_resource_toleration", False),
    "DefaultStorageClass": ("plugins.default_storage_class", True),
    "StorageObjectInUseProtection": ("plugins.storage_object_in_use_protection", True),
    "OwnerReferencesPermissionEnforcement": ("plugins.owner_references_permission_enforcement", False),
    "PersistentVolumeClaimResize": ("plugins.persistent_volume_claim_resize", True),
    "RuntimeClass": ("plugins.runtime_class", True),
    "CertificateApproval": ("plugins.certificate_approval", True),
    "CertificateSigning": ("plugins.certificate_signing", True),
    "PodGroupWorkloadExists": ("plugins.pod_group_workload_exists", True),
    "ClusterTrustBundleAttest": ("plugins.cluster_trust_bundle_attest", True),
    "CertificateSubjectRestriction": ("plugins.certificate_subject_restriction", True),
    "DefaultIngressClass": ("plugins.default_ingress_class", True),
    "DenyServiceExternalIPs": ("plugins.deny_service_external_ips", False),
    "PodTopologyLabels": ("plugins.pod_topology_labels", True),
    "MutatingAdmissionPolicy": ("policy.mutating", True),
    "MutatingAdmissionWebhook": ("webhook.mutating", True),
    "ValidatingAdmissionPolicy": ("policy.validating", True),
    "ValidatingAdmissionWebhook": ("webhook.validating", True),
    "ResourceQuota": ("quota.plugin", True),
    "AlwaysDeny": ("plugins.always_deny", False),
}

#: Names that upstream knows, whose feature is off here: enabling them is no error and does nothing.
INACTIVE = (
    "PodGroupProtection",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
)


class UnknownPlugin(ValueError):
    """A plugin name that is not in the catalogue."""


def enabled_names(enable: Iterable[str] = (), disable: Iterable[str] = ()) -> list[str]:
    """The plugins that run, in order.  Raises UnknownPlugin; a name in both lists is on, as upstream has it."""
    enable, disable = set(enable), set(disable)
    for name in enable | disable:
        if name not in PLUGINS and name not in INACTIVE:
            raise UnknownPlugin(f'admission-control plugin "{name}" is unknown')
    return [name for name, (_, on) in PLUGINS.items() if (on and name not in disable) or name in enable]


def make_plugins(names: Iterable[str], initializer: Initializer, configurations: Mapping[str, Tree]) -> list[Plugin]:
    """Makes each named plugin with its configuration (a parsed document or None)."""
    plugins = []
    for name in names:
        module = importlib.import_module("kapi.admission." + PLUGINS[name][0])
        plugin: Plugin = module.make(initializer, configurations.get(name))
        plugin.name = name
        plugins.append(plugin)
    return plugins
