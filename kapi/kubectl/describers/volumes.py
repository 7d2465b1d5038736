"""Volumes of pods and persistent volumes: a type with its explanation, and rows of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kapi.kubectl.describers.claims import describe_claim
from kapi.kubectl.describers.lines import MAX_ANNOTATION, NONE, Lines, at, shorten
from kapi.machinery import quantities
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object, Tree


class Source(NamedTuple):
    """``rows`` are titles, each with the path of its field when that is not the title, and a default when it is not ""."""

    what: str
    rows: list[tuple[str, str, str]]


#: in the order in which kubectl looks for them; ``@`` is for persistent volumes, ``~`` a blank in a title
_TABLE = """
hostPath: HostPath (bare host directory volume)
  Path HostPathType=type!<none>
emptyDir: EmptyDir (a temporary directory that shares a pod's lifetime)
  Medium SizeLimit!<unset>
gcePersistentDisk: GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)
  PDName=pdName FSType Partition!0 ReadOnly!false
awsElasticBlockStore: AWSElasticBlockStore (a Persistent Disk resource in AWS)
  VolumeID FSType Partition!0 ReadOnly!false
gitRepo: GitRepo (a volume that is pulled from git when the pod is created)
  Repository Revision
secret: Secret (a volume populated by a Secret)
  SecretName Optional!false
configMap: ConfigMap (a volume populated by a ConfigMap)
  Name Optional!false
nfs: NFS (an NFS mount that lasts the lifetime of a pod)
  Server Path ReadOnly!false
iscsi: ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)
  TargetPortal IQN=iqn Lun!0 ISCSIInterface*=iscsiInterface FSType ReadOnly!false Portals![]
  DiscoveryCHAPAuth=chapAuthDiscovery!false SessionCHAPAuth=chapAuthSession!false SecretRef!nil InitiatorName!<none>
glusterfs: Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)
  EndpointsName=endpoints @EndpointsNamespace!<unset> Path ReadOnly!false
persistentVolumeClaim: PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)
  ClaimName ReadOnly!false
ephemeral: EphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)
rbd: RBD (a Rados Block Device mount on the host that shares a pod's lifetime)
  CephMonitors=monitors![] RBDImage=image FSType RBDPool=pool RadosUser=user Keyring SecretRef!nil ReadOnly!false
quobyte: Quobyte (a Quobyte mount on the host that shares a pod's lifetime)
  Registry Volume ReadOnly!false
downwardAPI: DownwardAPI (a volume populated by information about the pod)
azureDisk: AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)
  DiskName DiskURI=diskURI Kind:~*=kind FSType CachingMode ReadOnly!false
vsphereVolume: vSphereVolume (a Persistent Disk resource in vSphere)
  VolumePath FSType StoragePolicyName
cinder: Cinder (a Persistent Disk resource in OpenStack)
  VolumeID FSType ReadOnly!false SecretRef!nil
photonPersistentDisk: PhotonPersistentDisk (a Persistent Disk resource in photon platform)
  PdID FSType
portworxVolume: PortworxVolume (a Portworx Volume resource)
  VolumeID
scaleIO: ScaleIO (a persistent volume backed by a block device in ScaleIO)
  Gateway System Protection~Domain Storage~Pool Storage~Mode VolumeName @SecretName=secretRef.name
  @SecretNamespace=secretRef.namespace FSType ReadOnly!false
local: LocalVolume (a persistent volume backed by local storage on a node)
  Path
cephfs: CephFS (a CephFS mount on the host that shares a pod's lifetime)
  Monitors![] Path User SecretFile SecretRef!nil ReadOnly!false
storageos: StorageOS (a StorageOS Persistent Disk resource)
  VolumeName VolumeNamespace FSType ReadOnly!false
fc: FC (a Fibre Channel disk)
  TargetWWNs LUN=lun!<none> FSType ReadOnly!false
azureFile: AzureFile (an Azure File Service mount on the host and bind mount to the pod)
  SecretName @SecretNamespace ShareName ReadOnly!false
flexVolume: FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)
  Driver FSType SecretRef!nil ReadOnly!false Options!map[]
flocker: Flocker (a Flocker volume mounted by the Flocker agent)
  DatasetName DatasetUUID
projected: Projected (a volume that contains injected data from multiple sources)
csi: CSI (a Container Storage Interface (CSI) volume source)
  Driver FSType @VolumeHandle ReadOnly!false
image: Image (a container image or OCI artifact)
  Reference PullPolicy
"""


def _read_table(text: str, persistent: bool) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for line in text.strip().split("\n"):
        if not line.startswith(" "):
            name, _, what = line.partition(": ")
            found[name] = Source(what, [])
            continue
        for part in line.split():
            if not part.startswith("@") or persistent:
                title, _, default = part.lstrip("@").partition("!")
                title, _, path = title.partition("=")
                words = title.replace("~", " ")
                path = path or ("fsType" if title == "FSType" else (title[0].lower() + title[1:]).replace("~", ""))
                found[name].rows.append((words.removesuffix("*") if "*" in words else f"{words}:", path, default))
    return found


SOURCES, PERSISTENT = _read_table(_TABLE, False), _read_table(_TABLE, True)


def describe_source(out: Lines, volume: Object, sources: Mapping[str, Source]) -> None:
    name = next((name for name in sources if volume.get(name) is not None), "")
    if not name:
        out.put("<unknown>\n", 1)
        return
    source = volume[name]
    out.put(f"Type:\t{sources[name].what}\n", 2)
    for title, path, default in sources[name].rows:
        value = at(source, path)
        if path == "secretRef" and value is not None:
            shown = _reference(value, sources is PERSISTENT)
        else:
            shown = (
                default if value is None or path == "sizeLimit" and quantities.sign(value) <= 0 else _shown(path, value)
            )
        out.put(f"{title}\t{shown}\n", 2)
    if name in _MORE:
        _MORE[name](out, source)


def _shown(path: str, value: Tree) -> str:
    return ", ".join(value) if path == "targetWWNs" else value_text(value)


def _reference(secret: Object, with_namespace: bool) -> str:
    """A reference in Go's form of a pointer to a message."""
    if with_namespace:
        return "&SecretReference{{Name:{},Namespace:{},}}".format(
            *(secret.get(key, "") for key in ("name", "namespace"))
        )
    return f"&LocalObjectReference{{Name:{secret.get('name', '')},}}"


def _csi(out: Lines, source: Object) -> None:
    lines = [
        shorten(f"{key}={value}", MAX_ANNOTATION)
        for key, value in sorted((source.get("volumeAttributes") or {}).items())
    ]
    out.put("VolumeAttributes:\t", 2)
    if not lines:
        out.put(f"{NONE}\n")
    for number, line in enumerate(lines):
        if number:
            out.put("", 2)
            out.put("\t", 2)
        out.put(f"{line}\n", 2)


def _downward(out: Lines, source: Object) -> None:
    out.put("Items:\n", 2)
    for item in source.get("items") or ():
        for path in ("fieldRef.fieldPath", "resourceFieldRef.resource"):
            if (value := at(item, path)) is not None:
                out.put(f"{value} -> {item.get('path', '')}\n", 3)


def _projected(out: Lines, source: Object) -> None:
    for item in source.get("sources") or ():
        for name, title in (("secret", "SecretName"), ("configMap", "ConfigMapName")):
            if (given := item.get(name)) is not None:
                out.put(
                    f"{title}:\t{given.get('name', '')}\n    Optional:\t{value_text(bool(given.get('optional')))}\n", 2
                )
        if "downwardAPI" in item:
            out.put("DownwardAPI:\ttrue\n", 2)
        if "serviceAccountToken" in item:
            out.put(f"TokenExpirationSeconds:\t{item['serviceAccountToken'].get('expirationSeconds')}\n", 2)


def _ephemeral(out: Lines, source: Object) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        describe_claim(out.nested(2), template, whole=False)


_MORE = {"csi": _csi, "downwardAPI": _downward, "projected": _projected, "ephemeral": _ephemeral}
