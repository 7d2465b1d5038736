"""The options of the rules of a pod spec.

Upstream: ``core/validation`` PodValidationOptions and ``api/pod`` GetValidationOptionsFromPodSpecAndMeta.  Rules that are newer
than a stored object accept the values that it has already.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapi.machinery.tree import Tree
from kapi.resources.shared.features import features_of, gate


class PodOptions:
    """``is_pod`` is False in a template.  The attributes from ``restart_policy`` on describe the spec that is validated."""

    __slots__ = (
        "is_pod", "metadata", "features", "allow_privileged", "allow_invalid_deletion_cost",
        "allow_invalid_selector_values", "allow_invalid_node_affinity_values", "allow_invalid_spread_selectors",
        "allow_indivisible_huge_pages", "allow_non_local_token_path", "allow_host_sysctls", "allow_volume_devices",
        "allow_restart_container_for_init", "selector_merge", "old_violates_match_label_keys", "recursive_selinux_only",
        "comparison_operators", "user_namespace_host_network", "env_files", "restart_all_containers",
        "pod_level_resources", "relaxed_searches", "restart_policy", "grace", "host_users", "os",
        "volumes", "claim_names",
    )  # fmt: skip

    def __init__(self, ctx: object = None, *, is_pod: bool = True) -> None:
        self.features = features_of(ctx)
        self.is_pod = is_pod
        self.metadata: Mapping[str, Tree] | None = None
        self.allow_privileged = bool(getattr(ctx, "allow_privileged", False))
        self.allow_invalid_deletion_cost = not gate(ctx, "PodDeletionCost")
        self.allow_invalid_selector_values = False
        self.allow_invalid_node_affinity_values = False
        self.allow_invalid_spread_selectors = False
        self.allow_indivisible_huge_pages = False
        self.allow_non_local_token_path = False
        self.allow_host_sysctls = False
        self.allow_volume_devices = False
        self.allow_restart_container_for_init = False
        self.selector_merge = gate(ctx, "MatchLabelKeysInPodTopologySpreadSelectorMerge")
        self.old_violates_match_label_keys = False
        self.recursive_selinux_only = not gate(ctx, "SELinuxMount")
        self.comparison_operators = gate(ctx, "TaintTolerationComparisonOperators")
        self.user_namespace_host_network = gate(ctx, "UserNamespacesHostNetworkSupport")
        self.env_files = gate(ctx, "EnvFiles")
        self.restart_all_containers = gate(ctx, "RestartAllContainersOnContainerExits")
        self.pod_level_resources = gate(ctx, "PodLevelResources")
        self.relaxed_searches = gate(ctx, "RelaxedDNSSearchValidation")
        self.restart_policy = ""
        self.grace: int | None = None
        self.host_users = True
        self.os = ""
        self.volumes: Mapping[str, Mapping[str, Tree]] = {}
        self.claim_names: frozenset[str] = frozenset()
