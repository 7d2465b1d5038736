"""Defaults of pods and pod templates, with the default pull policy, which depends on the tag of an image.

Upstream: ``pkg/apis/core/v1/defaults.go``, ``conversion.go``, ``pkg/util/parsers``, distribution ``reference``.
"""

from __future__ import annotations

import re

from kapi.machinery.each import elements, entries
from kapi.machinery.memo import memoized
from kapi.machinery.pod_resources import of_containers
from kapi.machinery.tree import Object
from kapi.resources.shared.claims import default_claim_spec
from kapi.resources.shared.compute import is_pod_level
from kapi.resources.shared.resource_names import is_huge_page, is_overcommit_allowed, round_resource_list
from kapi.resources.shared.volume_sources import (
    default_azure_disk,
    default_host_path,
    default_iscsi,
    default_rbd,
    default_scale_io,
)

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DOMAIN_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"((?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(\w[\w.-]{{0,127}}))?"
    r"(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):([0-9a-fA-F]{32,}))?\Z",
    re.ASCII,
).match
_IDENTIFIER = re.compile(r"[a-f0-9]{64}\Z").match
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_FILE_MODE = 0o644
_HOUR_SECONDS = 3600
_OLD_INIT_ANNOTATIONS = frozenset(
    {
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    }
)


@memoized(4096)
def tag_of(image: str) -> str:
    """The tag; ``latest`` without tag and digest; "" with only a digest, or for an invalid name."""
    if _IDENTIFIER(image):
        return ""
    first, slash, _ = image.partition("/")
    local = not slash or not ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    name = f"docker.io/{image}" if local else image
    remote = name.partition("/")[2].partition("@")[0].partition(":")[0]
    found = _REFERENCE(name)
    if found is None or remote.lower() != remote or len(found[1]) > 255:
        return ""
    algorithm, digest = found[3], found[4]
    if digest and (_DIGEST_LENGTHS.get(algorithm) != len(digest) or digest.lower() != digest):
        return ""
    return found[2] or ("" if digest else "latest")


def pull_policy(image: str) -> str:
    """The default pull policy of an image."""
    return "Always" if tag_of(image) == "latest" else "IfNotPresent"


def round_resources(resources: Object | None) -> None:
    if resources:
        round_resource_list(resources.get("limits"))
        round_resource_list(resources.get("requests"))


def default_probe(probe: Object) -> None:
    probe["timeoutSeconds"] = probe.get("timeoutSeconds") or 1
    probe["periodSeconds"] = probe.get("periodSeconds") or 10
    probe["successThreshold"] = probe.get("successThreshold") or 1
    probe["failureThreshold"] = probe.get("failureThreshold") or 3
    _default_http_get(probe)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(handler: Object) -> None:
    action = handler.get("httpGet")
    if action is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def default_container(container: Object) -> None:
    get = container.get
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(get("image", ""))
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in elements(get("ports")):
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in elements(get("env")):
        source = variable.get("valueFrom")
        if source is not None:
            _default_field_ref(source)
            file_ref = source.get("fileKeyRef")
            if file_ref is not None and file_ref.get("optional") is None:
                file_ref["optional"] = False
    resources = get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        round_resources(resources)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = get(name)
        if probe is not None:
            default_probe(probe)
    lifecycle = get("lifecycle")
    if lifecycle:
        for name in ("postStart", "preStop"):
            handler = lifecycle.get(name)
            if handler is not None:
                _default_http_get(handler)


def _default_field_ref(owner: Object) -> None:
    ref = owner.get("fieldRef")
    if ref is not None and not ref.get("apiVersion"):
        ref["apiVersion"] = "v1"


def _default_items(source: Object) -> None:
    for item in elements(source, "items"):
        _default_field_ref(item)


def _default_mode(source: Object) -> None:
    source.setdefault("defaultMode", _FILE_MODE)


def _default_downward(source: Object) -> None:
    _default_mode(source)
    _default_items(source)


def _default_projected(source: Object) -> None:
    _default_mode(source)
    if not source.get("sources"):
        source["sources"] = None
    for part in elements(source, "sources"):
        downward = part.get("downwardAPI")
        if downward is not None:
            _default_items(downward)
        token = part.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _HOUR_SECONDS


def _default_ephemeral(source: Object) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        spec = template.setdefault("spec", {})
        default_claim_spec(spec)
        round_resources(spec.get("resources"))


def _default_image(source: Object) -> None:
    source["pullPolicy"] = source.get("pullPolicy") or pull_policy(source.get("reference", ""))


_VOLUMES = {
    "hostPath": default_host_path,
    "secret": _default_mode,
    "iscsi": default_iscsi,
    "rbd": default_rbd,
    "downwardAPI": _default_downward,
    "configMap": _default_mode,
    "azureDisk": default_azure_disk,
    "projected": _default_projected,
    "scaleIO": default_scale_io,
    "ephemeral": _default_ephemeral,
    "image": _default_image,
}


def default_volume(volume: Object) -> None:
    found = False
    for kind, source in elements(list(volume.items())):
        if kind == "name" or source is None:
            continue
        found = True
        setter = _VOLUMES.get(kind)
        if setter is not None:
            setter(source)
    if not found:
        volume["emptyDir"] = {}


def default_pod_spec(spec: Object) -> None:
    """The defaults of a pod spec, in a pod or a template."""
    get = spec.get
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if get("securityContext") is None:
        spec["securityContext"] = {}
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    for volume in elements(get("volumes")):
        default_volume(volume)
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in elements(get(part)):
            default_container(container)
    round_resource_list(get("overhead"))
    resources = get("resources")
    if resources:
        round_resources(resources)
    name_service_account(spec)


def name_service_account(spec: Object) -> None:
    """Makes ``serviceAccount``, the deprecated field, equal to ``serviceAccountName``."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def drop_old_init_annotations(metadata: Object) -> None:
    annotations = metadata.get("annotations")
    if annotations and not _OLD_INIT_ANNOTATIONS.isdisjoint(annotations):
        kept = {key: value for key, value in entries(annotations) if key not in _OLD_INIT_ANNOTATIONS}
        metadata["annotations"] = kept


def default_pod_template(template: Object) -> None:
    """The defaults of a template; its metadata is ``{}`` when there is none, as upstream."""
    drop_old_init_annotations(template.setdefault("metadata", {}))
    default_pod_spec(template.setdefault("spec", {}))


def _limits_as_requests(containers: list[Object] | None) -> None:
    for container in elements(containers):
        resources = container.get("resources")
        limits = resources.get("limits") if resources else None
        if limits is not None and resources is not None:
            requests = resources.get("requests")
            if requests is None:
                requests = {}
            for name, quantity in entries(limits):
                requests.setdefault(name, quantity)
            if requests:
                resources["requests"] = requests


def _host_ports(containers: list[Object] | None) -> None:
    for container in elements(containers):
        for port in elements(container, "ports"):
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def default_pod_level(spec: Object) -> None:
    """Completes the resources of the pod as a whole with the sums of its containers."""
    resources = spec.get("resources")
    if not resources:
        return
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits or requests:
        for name, quantity in entries(of_containers(spec, "limits")):
            if is_huge_page(name) and name not in requests:
                limits.setdefault(name, quantity)
        if limits:
            resources["limits"] = limits
    if not limits:
        return
    for name, quantity in entries(of_containers(spec, "requests")):
        if is_pod_level(name) and is_overcommit_allowed(name):
            requests.setdefault(name, quantity)
    for name, quantity in entries(limits):
        if is_pod_level(name):
            requests.setdefault(name, quantity)
    if requests:
        resources["requests"] = requests


def default_pod(pod: Object) -> None:
    drop_old_init_annotations(pod.setdefault("metadata", {}))
    spec = pod.setdefault("spec", {})
    _limits_as_requests(spec.get("containers"))
    _limits_as_requests(spec.get("initContainers"))
    default_pod_level(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        _host_ports(spec.get("containers"))
        _host_ports(spec.get("initContainers"))
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    status = pod.get("status")
    if status:
        default_pod_status(status)


def default_pod_status(status: Object) -> None:
    for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for entry in elements(status, part):
            round_resource_list(entry.get("allocatedResources"))
            round_resources(entry.get("resources"))
    round_resource_list(status.get("allocatedResources"))
    round_resources(status.get("resources"))
    ip, ips = status.get("podIP"), status.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and not ip:
        status["podIP"] = ips[0].get("ip", "")
