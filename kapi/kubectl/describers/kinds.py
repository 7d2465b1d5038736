"""The describers by kind, with the related objects that they read from the server, and the describer of all other kinds."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from kapi.client.errors import StatusError
from kapi.kubectl.describers import access, cluster, network, pods, storage, workloads
from kapi.kubectl.describers.events import describe_events
from kapi.kubectl.describers.lines import HEAD, Lines, Part, at
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info
from kapi.machinery.golang import value_text
from kapi.machinery.selectors import selector_text
from kapi.machinery.status import Forbidden, NotFound
from kapi.machinery.tree import Object

_SHOWN_BEFORE = frozenset(
    f".metadata.{name}" for name in ("managedFields", "name", "namespace", "labels", "annotations")
)
_ACRONYMS = ("API", "URL", "UID", "GUID")


def _fields(out: Lines, content: Object, level: int = 0, path: str = "") -> None:
    for field, value in sorted(content.items()):
        here = f"{path}.{field}"
        if here in _SHOWN_BEFORE:
            continue
        if not isinstance(value, dict | list):
            out.put(f"{title(field)}:\t{value_text(value)}\n", level)
            continue
        out.put(f"{title(field)}:\n", level)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                _fields(out, item, level + 1, here)
            else:
                out.put(f"{value_text(item)}\n", level + 1)


def title(field: str) -> str:
    """``Last Transition Time`` for ``lastTransitionTime``; a name with other characters than letters and ``-`` is unchanged."""
    if any(not (character.isalpha() or character == "-") for character in field):
        return field
    words = list(_joined(re.findall(r"[A-Z]+(?=[A-Z][a-z]|[^A-Za-z]|$)|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z]+", field)))
    return " ".join(
        word.upper() if word.upper() in _ACRONYMS else word.capitalize() if word.islower() else word for word in words
    )


def _joined(words: list[str]) -> Iterator[str]:
    """Joins words: an acronym and the capitalized word after it are one word."""
    place = 0
    while place < len(words):
        word, following = words[place], words[place + 1] if place + 1 < len(words) else ""
        if len(word) >= 2 and word == word.upper() and following[:1].isupper():
            yield word + following
            place += 1
        else:
            yield word
        place += 1


GENERIC = (*HEAD, lambda out, obj: _fields(out, {**obj}))

_MIRROR = "kubernetes.io/config.mirror"


class Reader:
    """Reads lists, page by page."""

    def __init__(self, factory: Factory, chunk: int) -> None:
        self._factory, self._chunk = factory, chunk

    async def get(self, version: str, namespace: str, resource: str, name: str) -> Object:
        request = self._factory.client(version).get().namespace(namespace).resource(resource).name(name)
        found: Object = await request.do()
        return found

    async def all(
        self, version: str, namespace: str, resource: str, labels: str = "", fields: str = ""
    ) -> list[Object]:
        items: list[Object] = []
        token = ""
        while True:
            request = self._factory.client(version).get().namespace(namespace).resource(resource)
            page = await request.params(
                {"labelSelector": labels, "fieldSelector": fields, "limit": self._chunk or None, "continue": token}
            ).do()
            items += page.get("items") or ()
            token = at(page, "metadata.continue") or ""
            if not token:
                return items

    async def events(self, obj: Object, kind: str, uid: str) -> list[Object]:
        """The events about an object; none when they cannot be read."""
        namespace = at(obj, "metadata.namespace") or ""
        terms = [f"involvedObject.name={at(obj, 'metadata.name')}", f"involvedObject.namespace={namespace}"]
        terms += [f"involvedObject.kind={kind}"] if kind else []
        terms += [f"involvedObject.uid={uid}"] if uid else []
        try:
            return await self.all("v1", namespace, "events", fields=",".join(terms))
        except StatusError:
            return []


async def _pods(read: Reader, obj: Object) -> Object:
    """The pods that a controller owns."""
    selector = at(obj, "spec.selector")
    selector = (
        selector if isinstance(selector, dict) and obj["kind"] != "ReplicationController" else {"matchLabels": selector}
    )
    try:
        found = await read.all("v1", obj["metadata"]["namespace"], "pods", selector_text(selector))
    except StatusError as error:
        if obj["kind"] != "ReplicaSet":
            raise
        return {"error": error.message}
    return {"pods": [pod for pod in found if _owned(pod, obj)]}


def _owned(obj: Object, owner: Object) -> bool:
    owners = at(obj, "metadata.ownerReferences") or ()
    return any(one.get("controller") and one["uid"] == owner["metadata"]["uid"] for one in owners)


async def replica_sets(read: Reader, obj: Object) -> Object:
    """The replica sets of a deployment: ``new`` has its template, the ``old`` ones do not."""
    try:
        found = await read.all(
            "apps/v1", obj["metadata"]["namespace"], "replicasets", selector_text(at(obj, "spec.selector"))
        )
    except StatusError:
        return {"sets": {"old": [], "new": []}}
    owned = [one for one in found if _owned(one, obj)]
    owned.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
    wanted = _without_hash(obj["spec"]["template"])
    new = [one for one in owned if _without_hash(one["spec"]["template"]) == wanted][:1]
    return {"sets": {"old": [one for one in owned if one not in new], "new": new}}


def _without_hash(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.pop("labels", None) or {}).items() if key != "pod-template-hash"}
    return {**template, "metadata": {**{key: value for key, value in metadata.items() if value}, "labels": labels}}


async def _claim(read: Reader, obj: Object) -> Object:
    name, pods = obj["metadata"]["name"], await read.all("v1", obj["metadata"]["namespace"], "pods")
    owners = {one["uid"] for one in at(obj, "metadata.ownerReferences") or () if one["kind"] == "Pod"}

    def uses(pod: Object) -> bool:
        volumes = at(pod, "spec.volumes") or ()
        return pod["metadata"]["uid"] in owners or any(
            at(one, "persistentVolumeClaim.claimName") == name for one in volumes
        )

    return {"pods": [pod for pod in pods if uses(pod)]}


async def _slices_of(read: Reader, namespace: str, service: str) -> list[Object]:
    return await read.all("discovery.k8s.io/v1", namespace, "endpointslices", f"kubernetes.io/service-name={service}")


async def _service(read: Reader, obj: Object) -> Object:
    return {"slices": await _slices_of(read, obj["metadata"]["namespace"], obj["metadata"]["name"])}


async def _ingress(read: Reader, obj: Object) -> Object:
    backends = [at(obj, "spec.defaultBackend") or {}]
    backends += [path["backend"] for rule in at(obj, "spec.rules") or () for path in at(rule, "http.paths") or ()]
    found: Object = {}
    for name in {backend["service"]["name"] for backend in backends if "service" in backend}:
        try:
            slices = await _slices_of(read, obj["metadata"]["namespace"], name)
            service = await read.get("v1", obj["metadata"]["namespace"], "services", name)
            found[name] = {"slices": slices, "ports": at(service, "spec.ports") or []}
        except StatusError as error:
            found[name] = {"error": error.message}
    return {"backends": found}


async def _namespace(read: Reader, obj: Object) -> Object:
    name = obj["metadata"]["name"]
    return {"quotas": await read.all("v1", name, "resourcequotas"), "limits": await read.all("v1", name, "limitranges")}


async def _node(read: Reader, obj: Object) -> Object:
    name = obj["metadata"]["name"]
    fields = f"spec.nodeName={name},status.phase!=Failed,status.phase!=Succeeded"
    try:
        pods: list[Object] | None = await read.all("v1", "", "pods", fields=fields)
    except Forbidden:
        pods = None
    try:
        lease: Object | str = await read.get("coordination.k8s.io/v1", "kube-node-lease", "leases", name)
    except StatusError as error:
        lease = error.message
    try:
        slices = await read.all("resource.k8s.io/v1", "", "resourceslices", fields=f"spec.nodeName={name}")
    except (StatusError, NotFound):
        slices = []
    return {"pods": pods, "lease": lease, "slices": slices}


class Describer(NamedTuple):
    """``version`` is the API version in which the object is read; ``events``: whether events are shown."""

    parts: Sequence[Part]
    related: Callable[[Reader, Object], Awaitable[Object]] | None = None
    version: str = "v1"
    events: bool = True


_RBAC, _NETWORK, _STORAGE = "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io"
DESCRIBERS = {
    ("", "ConfigMap"): Describer(storage.CONFIG_MAP),
    ("", "Endpoints"): Describer(network.ENDPOINTS),
    ("", "LimitRange"): Describer(cluster.LIMIT_RANGE, events=False),
    ("", "Namespace"): Describer(cluster.NAMESPACE_OBJECT, _namespace, events=False),
    ("", "Node"): Describer(cluster.NODE, _node),
    ("", "PersistentVolume"): Describer(storage.PERSISTENT_VOLUME),
    ("", "PersistentVolumeClaim"): Describer(storage.PERSISTENT_VOLUME_CLAIM, _claim),
    ("", "Pod"): Describer(pods.POD),
    ("", "ReplicationController"): Describer(workloads.REPLICATION_CONTROLLER, _pods),
    ("", "ResourceQuota"): Describer(cluster.RESOURCE_QUOTA, events=False),
    ("", "Secret"): Describer(storage.SECRET, events=False),
    ("", "Service"): Describer(network.SERVICE, _service),
    ("", "ServiceAccount"): Describer(access.SERVICE_ACCOUNT),
    ("apps", "DaemonSet"): Describer(workloads.DAEMON_SET, _pods),
    ("apps", "Deployment"): Describer(workloads.DEPLOYMENT, replica_sets),
    ("apps", "ReplicaSet"): Describer(workloads.REPLICA_SET, _pods),
    ("apps", "StatefulSet"): Describer(workloads.STATEFUL_SET, _pods),
    ("autoscaling", "HorizontalPodAutoscaler"): Describer(workloads.HORIZONTAL_POD_AUTOSCALER, version="v2"),
    ("batch", "CronJob"): Describer(workloads.CRON_JOB),
    ("batch", "Job"): Describer(workloads.JOB),
    ("certificates.k8s.io", "CertificateSigningRequest"): Describer(access.CERTIFICATE_SIGNING_REQUEST),
    ("discovery.k8s.io", "EndpointSlice"): Describer(network.ENDPOINT_SLICE),
    (_NETWORK, "Ingress"): Describer(network.INGRESS, _ingress),
    (_NETWORK, "IngressClass"): Describer(network.INGRESS_CLASS),
    (_NETWORK, "IPAddress"): Describer(network.IP_ADDRESS),
    (_NETWORK, "NetworkPolicy"): Describer(network.NETWORK_POLICY, events=False),
    (_NETWORK, "ServiceCIDR"): Describer(network.SERVICE_CIDR),
    ("policy", "PodDisruptionBudget"): Describer(workloads.POD_DISRUPTION_BUDGET),
    (_RBAC, "ClusterRole"): Describer(access.ROLE, events=False),
    (_RBAC, "ClusterRoleBinding"): Describer(access.BINDING, events=False),
    (_RBAC, "Role"): Describer(access.ROLE, events=False),
    (_RBAC, "RoleBinding"): Describer(access.BINDING, events=False),
    ("scheduling.k8s.io", "PriorityClass"): Describer(workloads.PRIORITY_CLASS),
    (_STORAGE, "CSINode"): Describer(storage.CSI_NODE),
    (_STORAGE, "StorageClass"): Describer(storage.STORAGE_CLASS),
    (_STORAGE, "VolumeAttributesClass"): Describer(storage.VOLUME_ATTRIBUTES_CLASS),
}


async def describe(read: Reader, info: Info, show_events: bool) -> str:
    """The text of ``describe`` for the object, which is read again from the server.  Raises StatusError and CommandError."""
    mapping = info.mapping
    found = DESCRIBERS.get((mapping.group, mapping.kind), Describer(GENERIC, version=mapping.version))
    version = f"{mapping.group}/{found.version}" if mapping.group else found.version
    obj = await read.get(version, info.namespace, mapping.name, info.name)
    related = await found.related(read, obj) if found.related is not None else {}
    out = Lines()
    events = await _events(read, obj) if show_events and found.events else None
    for part in found.parts:
        part(out, {**obj, "related": related} if found.related is not None else obj)
    if events is not None:
        describe_events(out, events)
    return out.text()


async def _events(read: Reader, obj: Object) -> list[Object]:
    """A pod's events are searched without its kind; a node's also by its name in place of its UID."""
    kind, metadata = obj["kind"], obj["metadata"]
    uid = metadata.get("uid", "")
    if kind == "Pod" and obj["apiVersion"] == "v1":
        return await read.events(obj, "", (metadata.get("annotations") or {}).get(_MIRROR, uid))
    found = await read.events(obj, kind, uid)
    if kind == "Node" and obj["apiVersion"] == "v1":
        found += await read.events(obj, kind, metadata["name"])
    return found
