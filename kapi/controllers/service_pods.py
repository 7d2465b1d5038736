"""Follows Services with a selector and the pods behind them, and says what endpoints contain of a pod.

The pods of a namespace are followed only while it has such a Service.  Upstream: ``endpointslice/util``, ``pkg/api/v1/pod``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapi.controllers.watching import NamespaceWatches
from kapi.machinery.each import elements
from kapi.machinery.tree import Object, Tree
from kapi.runtime.interface import Client

HEADLESS = "service.kubernetes.io/headless"
Key = tuple[str, str]  # namespace and name of a Service


def selector_of(service: Object) -> Object | None:
    """None for a Service without one, whose endpoints its owner makes, and for an ExternalName."""
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return None
    selector: Object | None = spec.get("selector")
    return selector or None


def selects(selector: Object, pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in selector.items())


def selected(service: Object, pods: Iterable[Object]) -> list[Object]:
    """By name, so that results are the same each time."""
    selector = selector_of(service)
    if selector is None:
        return []
    return sorted((pod for pod in pods if selects(selector, pod)), key=lambda pod: str(pod["metadata"]["name"]))


def is_going(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def addresses(pod: Object, family: str) -> list[str]:
    """``family`` is IPv4 or IPv6."""
    state = pod.get("status") or {}
    ips = [one.get("ip") for one in elements(state, "podIPs")] or [state.get("podIP")]
    return [ip for ip in ips if ip and (":" in ip) == (family == "IPv6")]


def is_headless(service: Object) -> bool:
    return (service.get("spec") or {}).get("clusterIP") in ("None", "", None)


def hostname_for(pod: Object, service: Object) -> str:
    """The name under which the Service's DNS knows the pod; "" for none."""
    spec = pod.get("spec") or {}
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        return str(spec["hostname"])
    return ""


def reference_to(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}


CHANGED = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """The times of the changes for which endpoints are written (upstream: ``endpointslice/util/trigger_time_tracker.go``)."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[dict[str, str], str]] = {}  # the times of the pods by name, and of the Service

    def changed(self, key: Key, service: Object, pods: Iterable[Object]) -> str:
        """The time of the first change since the last call for this Service; "" for none."""
        times = {str(pod["metadata"]["name"]): _ready_since(pod) for pod in pods}
        created = str(service["metadata"].get("creationTimestamp") or "")
        before, self._known[key] = self._known.get(key), (times, created)
        if before is None:
            return created
        changed = [since for name, since in times.items() if since > before[0].get(name, "")]
        return min([*changed, created] if created > before[1] else changed, default="")

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)


def _ready_since(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return str(next((one.get("lastTransitionTime") or "" for one in conditions if one.get("type") == "Ready"), ""))


def ports_of(service: Object, pod: Object) -> list[Object]:
    """The Service's ports as this pod has them; one whose name no container knows is left out."""
    found = []
    for port in elements(service, "spec", "ports"):
        number = _target(port, pod)
        if number is None:
            continue
        made = {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol") or "TCP"}
        if port.get("appProtocol") is not None:
            made["appProtocol"] = port["appProtocol"]
        found.append(made)
    return found


def _target(port: Object, pod: Object) -> int | None:
    target = port.get("targetPort")
    if not isinstance(target, str):
        return int(target or port["port"])
    spec = pod.get("spec") or {}
    sidecars = [one for one in elements(spec, "initContainers") if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or []), *sidecars):
        for known in elements(container, "ports"):
            if known.get("name") == target and (known.get("protocol") or "TCP") == (port.get("protocol") or "TCP"):
                return int(known["containerPort"])
    return None


def matters(pod: Object, old: Object | None) -> bool:
    """Whether a change of a pod may change its endpoints."""
    return old is None or _shown(pod) != _shown(old)


def _shown(pod: Object) -> tuple[Tree, ...]:
    metadata, spec, state = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    return (
        metadata.get("labels"), is_going(pod), spec.get("nodeName"), spec.get("hostname"), spec.get("subdomain"),
        state.get("podIP"), state.get("podIPs"), state.get("phase"), is_ready(pod),
    )  # fmt: skip


class ServiceFollower:
    """``changed`` is called with each Service whose endpoints may have changed."""

    def __init__(self, client: Client, changed: Callable[[Key], None]) -> None:
        self._services = client.resource("", "services")
        self._pods = NamespaceWatches(client.resource("", "pods"))
        self._changed = changed
        self._selectors: dict[str, dict[str, Object]] = {}  # namespace -> Service -> selector
        self._unwatch: Callable[[], None] | None = None

    def start(self) -> None:
        self._unwatch = self._services.watch(self._service_changed)

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._pods.stop()

    def _service_changed(self, event: str, service: Object, old: Object | None) -> None:
        metadata = service["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        selector = None if event == "DELETED" else selector_of(service)
        if selector is None:
            self._forget(namespace, name)
        else:
            self._selectors.setdefault(namespace, {})[name] = selector
            self._pods.begin(namespace, self._pod_changed)
        if event == "DELETED" or selector is not None:
            self._changed((namespace, name))

    def _forget(self, namespace: str, name: str) -> None:
        known = self._selectors.get(namespace)
        if known is None or known.pop(name, None) is None or known:
            return
        del self._selectors[namespace]
        self._pods.end(namespace)

    def _pod_changed(self, event: str, pod: Object, old: Object | None) -> None:
        if event == "MODIFIED" and not matters(pod, old):
            return
        namespace = pod["metadata"]["namespace"]
        for name, selector in self._selectors.get(namespace, {}).items():
            if selects(selector, pod) or (old is not None and selects(selector, old)):
                self._changed((namespace, name))
