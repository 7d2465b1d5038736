"""All admission plugins in the order in which they run, and the plugins that are on by default.

Upstream: ``pkg/kubeapiserver/options/plugins.go`` (AllOrderedPlugins, DefaultOffAdmissionPlugins).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Plugin
from kapi.machinery.golang import quote
from kapi.machinery.tree import Tree

#: name, which is also that of the class -> (module under kapi.admission, on by default)
PLUGINS: dict[str, tuple[str, bool]] = {
    "AlwaysAdmit": ("plugins.always", False),
    "NamespaceAutoProvision": ("plugins.namespaces", False),
    "NamespaceLifecycle": ("plugins.namespaces", True),
    "NamespaceExists": ("plugins.namespaces", False),
    "LimitPodHardAntiAffinityTopology": ("plugins.topology", False),
    "LimitRanger": ("plugins.limit_ranger", True),
    "ServiceAccount": ("plugins.service_account", True),
    "NodeRestriction": ("plugins.node_restriction", False),
    "TaintNodesByCondition": ("plugins.tolerations", True),
    "AlwaysPullImages": ("plugins.always_pull_images", False),
    "ImagePolicyWebhook": ("plugins.image_policy_webhook", False),
    "PodSecurity": ("podsecurity.plugin", True),
    "PodNodeSelector": ("plugins.pod_node_selector", False),
    "Priority": ("plugins.priority", True),
    "DefaultTolerationSeconds": ("plugins.tolerations", True),
    "PodTolerationRestriction": ("plugins.tolerations", False),
    "EventRateLimit": ("plugins.event_rate_limit", False),
    "ExtendedResourceToleration": ("plugins.tolerations", False),
    "DefaultStorageClass": ("plugins.default_class", True),
    "StorageObjectInUseProtection": ("plugins.storage", True),
    "OwnerReferencesPermissionEnforcement": ("plugins.owner_references_permission_enforcement", False),
    "PersistentVolumeClaimResize": ("plugins.storage", True),
    "RuntimeClass": ("plugins.runtime_class", True),
    "CertificateApproval": ("plugins.certificates", True),
    "CertificateSigning": ("plugins.certificates", True),
    "PodGroupWorkloadExists": ("plugins.pod_groups", True),
    "ClusterTrustBundleAttest": ("plugins.certificates", True),
    "CertificateSubjectRestriction": ("plugins.certificates", True),
    "DefaultIngressClass": ("plugins.default_class", True),
    "DenyServiceExternalIPs": ("plugins.deny_service_external_ips", False),
    "PodTopologyLabels": ("plugins.topology", True),
    "NodeDeclaredFeatureValidator": ("plugins.pod_resize", True),
    "JobValidation": ("plugins.pod_groups", True),
    "PodResizeValidator": ("plugins.pod_resize", True),
    "MutatingAdmissionPolicy": ("policy.mutating", True),
    "MutatingAdmissionWebhook": ("webhook.mutating", True),
    "ValidatingAdmissionPolicy": ("policy.validating", True),
    "ValidatingAdmissionWebhook": ("webhook.validating", True),
    "ResourceQuota": ("quota.plugin", True),
    "AlwaysDeny": ("plugins.always", False),
}

#: Names of upstream's plugins for features that kapi does not have: enabling them is no error and does nothing.
INACTIVE = ("PodGroupProtection",)


class UnknownPlugin(ValueError):
    """A plugin name that is not in the catalogue."""


def enabled_names(enable: Iterable[str] = (), disable: Iterable[str] = ()) -> list[str]:
    """The plugins that run, in order.  Raises UnknownPlugin; a name in both lists is on, as upstream."""
    enable, disable = set(enable), set(disable)
    for name in enable | disable:
        if name not in PLUGINS and name not in INACTIVE:
            raise UnknownPlugin(f'admission-control plugin "{name}" is unknown')
    return [name for name, (_, on) in PLUGINS.items() if (on and name not in disable) or name in enable]


def make_plugins(names: Iterable[str], initializer: Initializer, configurations: Mapping[str, Tree]) -> list[Plugin]:
    """Makes each named plugin with its configuration (a parsed document or None).  Raises ValueError."""
    plugins = []
    for name in names:
        made: type[Plugin] = getattr(importlib.import_module("kapi.admission." + PLUGINS[name][0]), name)
        if made.gate and not initializer.feature(made.gate):
            made = Plugin
        try:
            plugin = made(initializer, configurations.get(name)) if made.configured else made(initializer)
        except ValueError as error:
            raise ValueError(f"couldn't init admission plugin {quote(name)}: {error}") from None
        plugin.name = name
        plugins.append(plugin)
    return plugins
