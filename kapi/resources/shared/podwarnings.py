"""Warnings about a pod spec that is valid but probably a mistake (upstream: ``pkg/api/pod/warnings.go``)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from kapi.machinery import quantities
from kapi.machinery.each import each, each_of, elements
from kapi.machinery.field import Path
from kapi.machinery.freeing import drain
from kapi.machinery.golang import quote
from kapi.machinery.sorting import ordered
from kapi.machinery.tree import Object, Tree
from kapi.machinery.warnings import MAX_CHARACTERS
from kapi.resources.shared.addresses import ip_warnings
from kapi.resources.shared.affinity import PREFERRED, REQUIRED
from kapi.resources.shared.podtemplate import APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD
from kapi.resources.shared.security import containers_with_paths
from kapi.resources.shared.volume_warnings import NODE_LABELS, node_term_warnings

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
#: (name on the wire, name in the warning, text)
_VOLUMES = (
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("ephemeral", "", ""),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_NO_POD = "a null labelSelector results in matching no pod"

_BYTES = ("memory", "ephemeral-storage")


def _fraction(amounts: dict[str, str], name: str, path: Path, *below: str) -> Iterator[str]:
    quantity = amounts.get(name)
    if quantity is not None and quantities.milli(quantity) % 1000:
        place = path.child(*below).key(name)
        yield f'{place}: fractional byte value "{quantity}" is invalid, must be an integer'


def claim_spec_warnings(spec: Object, path: Path) -> list[str]:
    resources = spec.get("resources") or {}
    return [
        text
        for part in ("requests", "limits")
        for text in _fraction(resources.get(part) or {}, "storage", path, "resources", part)
    ]


def pod_warnings(spec: Object, metadata: Object, path: Path, *, template: bool = False) -> list[str]:
    """The warnings; ``path`` is the path of the pod (empty) or template."""
    warnings: list[str] = []
    where = path.child("spec")
    annotations = metadata.get("annotations") or {}
    for key in elements(spec, "nodeSelector"):
        if key in NODE_LABELS:
            warnings.append(f"{where.child('nodeSelector').key(key)}: {NODE_LABELS[key]}")
    if spec.get("affinity"):
        warnings += _node_affinity(spec["affinity"].get("nodeAffinity") or {}, where.child("affinity", "nodeAffinity"))
    if spec.get("topologySpreadConstraints"):
        warnings += _spread(spec["topologySpreadConstraints"], where.child("topologySpreadConstraints"))
    for key, text in _ANNOTATIONS.items() if annotations else ():
        if key in annotations:
            warnings.append(f"{path.child('metadata', 'annotations').key(key)}: {text}")
    volumes = spec.get("volumes")
    if volumes:
        warnings += _volumes(volumes, where.child("volumes"))
        warnings += _overlaps(volumes)
    warnings += _duplicates(spec, "hostAliases", "ip", where)
    warnings += _duplicates(spec, "imagePullSecrets", "name", where)
    if spec.get("imagePullSecrets"):
        warnings += _nameless(spec["imagePullSecrets"], where.child("imagePullSecrets"))
    for name in _BYTES if spec.get("overhead") else ():
        warnings += _fraction(spec["overhead"], name, where, "overhead")
    if annotations:
        context = spec.get("securityContext") or {}
        if context.get("seccompProfile") is None and SECCOMP_POD in annotations:
            place = path.child("metadata", "annotations").key(SECCOMP_POD)
            warnings.append(f'{place}: non-functional in v1.27+; use the "seccompProfile" field instead')
    for container, here in elements(containers_with_paths(spec, where)):
        if annotations:
            warnings += _profiles(container, spec, annotations, path, template)
        if container.get("resources"):
            warnings += _fractions(container["resources"], here)
        if len(container.get("env") or ()) > 1:
            warnings += _hidden_variables(container["env"], here.child("env"))
    warnings += _ports(spec, where)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        place = where.child("terminationGracePeriodSeconds")
        warnings.append(f"{place}: must be >= 0; negative values are invalid and will be treated as 1")
    for name in ("podAffinity", "podAntiAffinity") if spec.get("affinity") else ():
        warnings += _pod_affinity(spec["affinity"].get(name) or {}, where.child("affinity", name))
    for i, server in enumerate(elements(spec, "dnsConfig", "nameservers")):
        warnings += ip_warnings(where.child("dnsConfig", "nameservers").index(i), server)
    for i, alias in enumerate(elements(spec, "hostAliases")):
        warnings += ip_warnings(where.child("hostAliases").index(i).child("ip"), alias.get("ip", ""))
    return warnings


def _node_affinity(affinity: Object, path: Path) -> list[str]:
    warnings: list[str] = []
    for term, place in each_of(
        path.child(REQUIRED, "nodeSelectorTerms"), (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
    ):
        warnings += node_term_warnings(term, place)
    for term, place in each(path.child(PREFERRED), affinity):
        here = place.child("preference")
        warnings += node_term_warnings(term.get("preference") or {}, here, check_values=True)
    return warnings


def _nameless(secrets: list[Object], path: Path) -> Iterator[str]:
    for secret, here in each_of(path, secrets):
        if not secret.get("name"):
            yield f'{here.child("name")}: invalid empty name ""'


def _pod_affinity(affinity: Object, path: Path) -> Iterator[str]:
    for term, here in each(path.child(REQUIRED), affinity):
        if term.get("labelSelector") is None:
            yield f"{here.child('labelSelector')}: {_NO_POD}"
    for term, here in each(path.child(PREFERRED), affinity):
        if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
            place = here.child("podAffinityTerm", "labelSelector")
            yield f"{place}: {_NO_POD}"


def _spread(constraints: list[Object], path: Path) -> Iterator[str]:
    for constraint, place in each_of(path, constraints):
        here, key = place, constraint.get("topologyKey", "")
        if key in NODE_LABELS:
            yield f"{here.child('topologyKey')}: {key} is {NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{here.child('labelSelector')}: {_NO_POD}"


def _fractions(resources: Object, path: Path) -> Iterator[str]:
    for name in _BYTES:
        for part in ("limits", "requests"):
            if resources.get(part):
                yield from _fraction(resources[part], name, path, "resources", part)


def _volumes(volumes: list[Object], path: Path) -> Iterator[str]:
    for volume, place in each_of(path, volumes):
        for kind, shown, text in _VOLUMES:
            source = volume.get(kind)
            if source is None:
                continue
            if kind != "ephemeral":
                yield f"{place.child(shown)}: {text}"
            elif source.get("volumeClaimTemplate") is not None:
                here = place.child("ephemeral", "volumeClaimTemplate", "spec")
                yield from claim_spec_warnings(source["volumeClaimTemplate"].get("spec") or {}, here)


def _duplicates(spec: Object, part: str, name: str, path: Path) -> Iterator[str]:
    items = spec.get(part)
    if items is None or len(items) < 2:
        return
    seen = set()
    for item, here in each_of(path.child(part), items):
        value = item.get(name, "")
        if value in seen:
            yield f"{here.child(name)}: duplicate {name} {quote(value)}"
        seen.add(value)


def _profiles(container: Object, spec: Object, annotations: Object, path: Path, template: bool) -> Iterator[str]:
    context, name = container.get("securityContext") or {}, container.get("name", "")
    place = path.child("metadata", "annotations")
    if context.get("seccompProfile") is None and SECCOMP_CONTAINER + name in annotations:
        key = SECCOMP_CONTAINER + name
        yield f'{place.key(key)}: non-functional in v1.27+; use the "seccompProfile" field instead'
    if template and context.get("appArmorProfile") is None and APP_ARMOR + name in annotations:
        pod = (spec.get("securityContext") or {}).get("appArmorProfile")
        if pod is None or pod != app_armor_field(annotations[APP_ARMOR + name]):
            key = APP_ARMOR + name
            yield f'{place.key(key)}: deprecated since v1.30; use the "appArmorProfile" field instead'


def app_armor_field(annotation: str) -> Object | None:
    """The profile of a deprecated annotation; None for an annotation without a profile."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if annotation.startswith("localhost/") and annotation != "localhost/":
        return {"type": "Localhost", "localhostProfile": annotation.removeprefix("localhost/")}
    return None


def _hidden_variables(variables: list[Object], path: Path) -> Iterator[str]:
    seen = set()
    for variable, here in each_of(path, variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name in seen:
            reference = f"$({name})"
            if variable.get("valueFrom") is not None or value == reference or reference not in value:
                text = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
                yield f"{here}: {text}"
        seen.add(name)


def _go_port(port: Object) -> str:
    """A port in Go's form of a struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} ContainerPort:{port.get('containerPort', 0)} "
        f"Protocol:{port.get('protocol', '')} HostIP:{port.get('hostIP', '')}}}"
    )


class _Definitions:
    """Definitions of one container port, indexed by host port and address."""

    def __init__(self) -> None:
        self._all: list[tuple[Path, str, int]] = []
        self._by_host: dict[Tree, list[int]] = {}  # port, or port and address, -> places in the list

    def add(self, place: Path, ip: str, number: int) -> None:
        for key in (number, (number, ip)):
            self._by_host.setdefault(key, []).append(len(self._all))
        self._all.append((place, ip, number))

    def like(self, ip: str, number: int) -> Iterator[tuple[Path, str, int]]:
        """The definitions that may conflict with another one, in order."""
        if not number:
            yield from self._all
            return
        keys = (0, (number, ""), (number, ip)) if ip else (0, number)
        for at in heapq.merge(*(self._by_host.get(key, ()) for key in keys)):
            yield self._all[at]


def _ports(spec: Object, path: Path) -> list[str]:
    warnings: list[str] = []
    size = 0  # characters of the warnings, since an answer has a limit
    seen: dict[tuple[int, str], _Definitions] = {}
    names: dict[str, Path] = {}
    named: list[str] = []
    for container, here in elements(containers_with_paths(spec, path)):
        for port, place in each(here.child("ports"), container):
            ip, number = port.get("hostIP", ""), port.get("hostPort", 0)
            if ip and not number:
                warnings.append(f"{place}: hostIP set without hostPort: {_go_port(port)}")
            others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), _Definitions())
            for other, other_ip, other_number in others.like(ip, number):
                if size >= MAX_CHARACTERS:
                    break
                if ip == other_ip and number == other_number:
                    kind = "duplicate"
                elif not number or not other_number:
                    kind = "overlapping"
                else:
                    kind = "dangerously ambiguous"
                warnings.append(f"{place}: {kind} port definition with {other}")
                size += len(warnings[-1])
            others.add(place, ip, number)
            name = port.get("name")
            if name and name in names:
                first = names[name]
                named.append(
                    f"{place}: duplicate port name {quote(name)} with {first}, "
                    f"services and probes that select ports by name will use {first}"
                )
            elif name:
                names[name] = place
    for noted in (seen, names):
        drain(noted)
    return warnings + named


# -- overlapping files of one volume -------------------------------------------------------------------------------------

_File = tuple[str, str]  # path, source


def _shown(file: _File) -> str:
    return f"{quote(file[0])} ({file[1]})" if file[1] else quote(file[0])


def _collisions(files: list[_File]) -> Iterator[str]:
    """Pairs of files with equal or nested paths, each pair once, up to the limit of warnings in an answer."""
    given = [(path.rstrip("/"), source) for path, source in elements(files)]
    given = [file for file in elements(given) if file[0]]
    if len({path.partition("/")[0] for path, _ in elements(given)}) == len(given):
        return  # the usual case, such as the token of every pod
    parents = _parents(ordered({path + "/" for path, _ in elements(given)}))
    there: dict[str, list[tuple[int, _File]]] = {path: [] for path in elements(parents)}  # at the path, with numbers
    below: dict[str, list[tuple[int, _File]]] = {path: [] for path in elements(parents)}  # at and below the path
    known: set[_File] = set()
    texts: set[str] = set()
    size = 0
    for file in elements(given):
        ancestry = [file[0] + "/"]
        while parents[ancestry[-1]]:
            ancestry.append(parents[ancestry[-1]])
        for _, other in heapq.merge(below[ancestry[0]], *(there[path] for path in ancestry[1:])):
            text = f"{_shown(file)} with {_shown(other)}"
            if text in texts:
                continue
            if size >= MAX_CHARACTERS:
                return
            texts.add(text)
            size += len(text)
            yield text
        if file not in known:
            entry = (len(known), file)
            known.add(file)
            there[ancestry[0]].append(entry)
            for path in ancestry:
                below[path].append(entry)
    for noted in (there, below, parents, known, texts, given):
        drain(noted)


def _parents(paths: list[str]) -> dict[str, str]:
    """For each of the sorted paths, the longest other one that is a prefix of it, or ""."""
    parents: dict[str, str] = {}
    open_ones: list[str] = []
    for path in elements(paths):
        while open_ones and not path.startswith(open_ones[-1]):
            open_ones.pop()
        parents[path] = open_ones[-1] if open_ones else ""
        open_ones.append(path)
    return parents


def _files(source: Object, name: str) -> list[_File]:
    return [(item.get("path", ""), name) for item in elements(source, "items")]


def _overlaps(volumes: list[Object]) -> Iterator[str]:
    for volume in elements(volumes):
        name = quote(volume.get("name", ""))
        for kind, key in (("configMap", "name"), ("secret", "secretName"), ("downwardAPI", "")):
            source = volume.get(kind)
            if source is None:
                continue
            shown = kind[0].upper() + kind[1:]
            if key:
                shown += " " + quote(source.get(key, ""))
            for text in _collisions(_files(source, "")):
                yield f"volume {name} ({shown}): overlapping paths: {text}"
        projected = volume.get("projected")
        if projected is None:
            continue
        files: list[_File] = []
        for part in elements(projected, "sources"):
            if not part:
                yield f"volume {name} (Projected) has no sources provided"
            files += _projected_files(part)
        for text in _collisions(files):
            yield f"volume {name} (Projected): overlapping paths: {text}"


def _projected_files(part: Object) -> list[_File]:
    for kind, shown in (("configMap", "ConfigMap"), ("secret", "Secret")):
        source = part.get(kind)
        if source is not None and source.get("items") is not None:
            return _files(source, f"{shown} {quote(source.get('name', ''))}")
    if part.get("downwardAPI") is not None and part["downwardAPI"].get("items") is not None:
        return _files(part["downwardAPI"], "DownwardAPI")
    if part.get("serviceAccountToken") is not None:
        return [(part["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    bundle = part.get("clusterTrustBundle")
    if bundle is not None:
        name = bundle["name"] if bundle.get("name") is not None else bundle.get("signerName", "")
        return [(bundle.get("path", ""), f"ClusterTrustBundle {quote(name)}")]
    certificate = part.get("podCertificate") or {}
    kinds = (
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    )
    return [(certificate[key], shown) for key, shown in kinds if certificate.get(key)]
