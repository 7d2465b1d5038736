"""Pod templates, and the common annotations of pods and templates (upstream: ``core/validation`` ValidatePodTemplateSpec)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kapi.machinery import field, golang
from kapi.machinery.each import elements
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared import selectors
from kapi.resources.shared.affinity import (
    REQUIRED,
    has_invalid_node_values,
    pod_terms,
    validate_match_label_keys,
    validate_spread_keys,
    validate_tolerations,
)
from kapi.resources.shared.annotated_tolerations import read_tolerations
from kapi.resources.shared.compute import uses_indivisible_huge_pages
from kapi.resources.shared.gated import drop_disabled_fields
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import validate_descending, validate_local
from kapi.resources.shared.poddefaults import name_service_account
from kapi.resources.shared.podspec import MIRROR, validate_pod_spec
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.security import containers_with_paths, host_sysctl

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_COST = re.compile(r"(0|-?[1-9][0-9]*)\Z").match


def has_valid_deletion_cost(annotations: Mapping[str, str]) -> bool:
    cost = annotations.get(DELETION_COST)
    if cost is None:
        return True
    return bool(_COST(cost)) and len(cost) < 12 and -(1 << 31) <= int(cost) < 1 << 31


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: Object, path: Path, errors: Errors, ctx: PodOptions
) -> None:
    """Checks the annotations that Kubernetes itself reads."""
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(field.invalid(path.key(MIRROR), annotations[MIRROR], text))
    if annotations.get(TOLERATIONS):
        _tolerations(annotations[TOLERATIONS], path, errors, ctx)
    if not ctx.allow_invalid_deletion_cost and not has_valid_deletion_cost(annotations):
        cost = annotations[DELETION_COST]
        errors.append(field.invalid(path.key(DELETION_COST), cost, "must be a 32bit integer"))
    if SECCOMP_POD in annotations:
        _seccomp(annotations[SECCOMP_POD], path.child(SECCOMP_POD), errors)
    for key, value in annotations.items():
        if key.startswith(SECCOMP_CONTAINER):
            _seccomp(value, path.child(key), errors)
    for key, value in annotations.items():
        if key.startswith(APP_ARMOR):
            _app_armor(key, value, spec, path.key(key), errors)


def _tolerations(text: str, path: Path, errors: Errors, ctx: PodOptions) -> None:
    try:
        tolerations = read_tolerations(text) or []
    except ValueError as error:
        errors.append(field.invalid(path, TOLERATIONS, str(error)))
    else:
        validate_tolerations(tolerations, path.child(TOLERATIONS), errors, ctx)


def _seccomp(profile: str, path: Path, errors: Errors) -> None:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith("localhost/"):
        validate_descending(profile.removeprefix("localhost/"), path, errors)
    else:
        errors.append(field.invalid(path, profile, "must be a valid seccomp profile"))


def _app_armor(key: str, profile: str, spec: Object, path: Path, errors: Errors) -> None:
    name = key.removeprefix(APP_ARMOR)
    if not any(
        container.get("name", "") == name for container, _ in elements(containers_with_paths(spec, Path("spec")))
    ):
        errors.append(field.invalid(path, name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith("localhost/"):
        errors.append(field.invalid(path, profile, f"invalid AppArmor profile name: {golang.quote(profile)}"))


def validate_profiles_match(annotations: Mapping[str, str], spec: Object, path: Path, errors: Errors) -> None:
    """Seccomp and AppArmor profiles in annotations must be equal to those in fields."""
    context = spec.get("securityContext") or {}
    profile = context.get("seccompProfile")
    if profile is not None and SECCOMP_POD in annotations:
        place = path.child("securityContext", "seccompProfile")
        _match(annotations[SECCOMP_POD], profile, place, "seccomp", errors)
    for container, here in elements(containers_with_paths(spec, path)):
        own = (container.get("securityContext") or {}).get("seccompProfile")
        annotation = annotations.get(SECCOMP_CONTAINER + container.get("name", ""))
        if own is not None and annotation is not None:
            _match(annotation, own, here.child("securityContext", "seccompProfile"), "seccomp", errors)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, here in elements(containers_with_paths(spec, path)):
        own = (container.get("securityContext") or {}).get("appArmorProfile") or context.get("appArmorProfile")
        annotation = annotations.get(APP_ARMOR + container.get("name", ""))
        if own is not None and annotation is not None:
            _match(annotation, own, here.child("securityContext", "appArmorProfile"), "apparmor", errors)


def _match(annotation: str, profile: Object, path: Path, what: str, errors: Errors) -> None:
    kind = profile.get("type")
    defaults = ("runtime/default", "docker/default") if what == "seccomp" else ("runtime/default",)
    wrong = (
        (kind == "Unconfined" and annotation != "unconfined")
        or (kind == "RuntimeDefault" and annotation not in defaults)
        or (kind == "Localhost" and not annotation.startswith("localhost/"))
    )
    if wrong:
        errors.append(field.forbidden(path.child("type"), f"{what} type in annotation and field must match"))
    elif kind == "Localhost" and annotation.removeprefix("localhost/") != profile.get("localhostProfile"):
        text = f"{what} profile in annotation and field must match"
        errors.append(field.forbidden(path.child("localhostProfile"), text))


def validate_pod_template(template: Object, path: Path, errors: Errors, ctx: PodOptions) -> None:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    validate_labels(metadata.get("labels") or {}, path.child("labels"), errors)
    if annotations:
        validate_annotations(annotations, path.child("annotations"), errors)
        validate_pod_annotations(annotations, spec, path.child("annotations"), errors, ctx)
    validate_pod_spec(spec, path.child("spec"), errors, ctx)
    if annotations:
        validate_profiles_match(annotations, spec, path.child("spec"), errors)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(field.forbidden(path.child("spec", "ephemeralContainers"), text))


def prepare_template(template: Object | None, old: Object | None, ctx: object) -> None:
    """Prepares a template for validation, in place; ``old`` is the stored one on an update."""
    if template:
        spec = template.get("spec") or {}
        drop_disabled_fields(spec, None if old is None else old.get("spec") or {}, ctx)
        name_service_account(spec)


def template_options(ctx: object, old: Object | None = None) -> PodOptions:
    """Options for a template; ``old`` is the stored one on an update."""
    options = PodOptions(ctx, is_pod=False)
    if old is not None:
        relax(options, old.get("spec") or {}, old.get("metadata") or {})
    return options


def relax(options: PodOptions, old: Object, metadata: Object) -> None:
    """Sets options so that the object may keep values of the stored spec ``old``."""
    if uses_indivisible_huge_pages({"limits": old.get("overhead")}) or any(
        uses_indivisible_huge_pages(container.get("resources"))
        for container, _ in elements(containers_with_paths(old, Path("spec")))
    ):
        options.allow_indivisible_huge_pages = True
    affinity = old.get("affinity")
    if affinity:
        options.allow_invalid_selector_values = any(
            selectors.has_invalid_values(term.get(name))
            for term in elements(pod_terms(affinity))
            for name in ("labelSelector", "namespaceSelector")
        )
        required = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
        options.allow_invalid_node_affinity_values = has_invalid_node_values(required)
    for constraint in elements(old, "topologySpreadConstraints"):
        found: Errors = []
        selectors.validate_label_selector(constraint.get("labelSelector"), Path(""), found)
        options.allow_invalid_spread_selectors |= bool(found)
        found = []
        if options.selector_merge:
            validate_match_label_keys(constraint, Path(""), found, mismatch=False)
        else:
            validate_spread_keys(constraint, Path(""), found)
        options.old_violates_match_label_keys |= bool(found)
    for volume in elements(old, "volumes"):
        for source in elements(volume, "projected", "sources"):
            token = source.get("serviceAccountToken")
            found = []
            if token is not None:
                validate_local(token.get("path", ""), Path(""), found)
            options.allow_non_local_token_path |= bool(found)
    context = old.get("securityContext") or {}
    options.recursive_selinux_only &= context.get("seLinuxChangePolicy") is None
    for sysctl in elements(context, "sysctls"):
        options.allow_host_sysctls |= host_sysctl(sysctl.get("name", ""), old, Path("")) is not None
    for search in (old.get("dnsConfig") or {}).get("searches") or ():
        options.relaxed_searches |= search == "." or "_" in search
    annotations = metadata.get("annotations") or {}
    if not options.allow_invalid_deletion_cost and not has_valid_deletion_cost(annotations):
        options.allow_invalid_deletion_cost = True
    _relax_containers(options, old)


def _relax_containers(options: PodOptions, old: Object) -> None:
    operators = {toleration.get("operator") for toleration in elements(old, "tolerations")}
    options.comparison_operators |= bool(operators & {"Lt", "Gt"})
    if old.get("hostUsers") is False:
        options.user_namespace_host_network |= bool(old.get("hostNetwork"))
    for container, _ in elements(containers_with_paths(old, Path("spec"))):
        if old.get("hostUsers") is False and container.get("volumeDevices"):
            options.allow_volume_devices = True
        options.restart_all_containers |= any(
            rule.get("action") == "RestartAllContainers" for rule in elements(container, "restartPolicyRules")
        )
        for variable in elements(container, "env"):
            options.env_files |= (variable.get("valueFrom") or {}).get("fileKeyRef") is not None
    for container in elements(old, "initContainers"):
        if container.get("restartPolicy") == "Always":
            options.restart_all_containers |= bool(container.get("restartPolicyRules"))
        else:
            options.allow_restart_container_for_init |= any(
                policy.get("restartPolicy") == "RestartContainer" for policy in elements(container, "resizePolicy")
            )
