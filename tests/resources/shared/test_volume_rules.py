"""What a volume of a pod may say: each rule of each kind refuses one thing, with its text."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.core.pods import RESOURCE
from kapi.resources.definition import StrategyContext
from tests.resources.strategy_kit import CTX, problems, short

MODE = "must be a number between 0 and 0777 (octal), both inclusive"
RELATIVE, BACKSTEPS = "must be a relative path", "must not contain '..'"
HOST_PORT = "must be a host:port pair or multiple pairs separated by commas"
SIGNER = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
RANGE = "must be between 0 and 255, inclusive"
PARTITION = "must be between 1 and 255, inclusive"
PROJECTED = replace(CTX, features={"ClusterTrustBundleProjection": True, "PodCertificateRequest": True})
CONTAINERS = [{"name": "c", "image": "i:1"}]


def of_volumes(*volumes: Object, ctx: StrategyContext = CTX) -> list[str]:
    found = problems(
        RESOURCE, ctx, spec={"containers": CONTAINERS, "volumes": list(volumes), "serviceAccountName": "a"}
    )
    return [text.removeprefix("spec.volumes") for text in found]


def of_volume(ctx: StrategyContext = CTX, **source: Any) -> list[str]:
    return [text.removeprefix(".") for text in short(of_volumes({"name": "v", **source}, ctx=ctx), "[0]")]


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("hostPath", {"path": "/a"}), ("gitRepo", {"repository": "r"}), ("gcePersistentDisk", {"pdName": "d"}),
        ("awsElasticBlockStore", {"volumeID": "d"}), ("secret", {"secretName": "s"}), ("nfs", {"server": "s", "path": "/a"}),
        ("iscsi", {"targetPortal": "p", "iqn": "iqn.2015-01.com.example:a", "lun": 0}),
        ("glusterfs", {"endpoints": "e", "path": "p"}), ("persistentVolumeClaim", {"claimName": "c"}),
        ("rbd", {"monitors": ["m"], "image": "i"}), ("cinder", {"volumeID": "d"}), ("cephfs", {"monitors": ["m"]}),
        ("quobyte", {"registry": "h:1", "volume": "v"}), ("fc", {"wwids": ["w"]}), ("flexVolume", {"driver": "d"}),
        ("configMap", {"name": "c"}), ("azureFile", {"secretName": "s", "shareName": "s"}),
        ("vsphereVolume", {"volumePath": "p"}),
        ("photonPersistentDisk", {"pdID": "d"}), ("portworxVolume", {"volumeID": "d"}),
        ("azureDisk", {"diskName": "d", "diskURI": "https://a"}), ("storageos", {"volumeName": "v"}),
        ("scaleIO", {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}), ("csi", {"driver": "d"}),
    ],
)  # fmt: skip
def test_what_a_kind_needs(kind: str, least: Object) -> None:
    """Each part without which it says nothing.  ``wwids`` may be replaced, a claim of that path is told by its own rule."""
    assert of_volume(**{kind: least}) == []
    named = {"gcePersistentDisk": "persistentDisk"}.get(kind, kind)
    for part in [part for part in least if part not in ("wwids", "lun", "secretRef")]:
        found = of_volume(**{kind: {name: value for name, value in least.items() if name != part}})
        wanted = f"{named}.{part}: Required value" if kind != "csi" else "csi.driver: Required value"
        assert found[0].startswith(wanted), found


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ({}, []),  # an emptyDir
        ({"emptyDir": {"sizeLimit": "0"}}, []),
        ({"emptyDir": {"sizeLimit": "-1"}},
         ["[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
        ({"emptyDir": {}, "nfs": {"server": "s", "path": "/a"}}, ["[0].nfs: Forbidden: may not specify more than 1 volume type"]),
        ({"hostPath": {"path": "/a"}, "gitRepo": {"repository": "r"}},
         ["[0].gitRepo: Forbidden: may not specify more than 1 volume type"]),
    ],
)  # fmt: skip
def test_a_volume_has_one_kind(source: Object, texts: list[str]) -> None:
    assert of_volumes({"name": "v", **source}) == texts


def test_names_of_volumes() -> None:
    assert of_volumes({"name": "", "emptyDir": {}}) == ["[0].name: Required value"]
    assert of_volumes({"name": "a.b", "emptyDir": {}}) == ['[0].name: Invalid value: "a.b": must not contain dots']
    assert of_volumes(*[{"name": "a", "emptyDir": {}}] * 2) == ['[1].name: Duplicate value: "a"']
    assert of_volumes({"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}) == []


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ({"hostPath": {"path": "/a/../b"}}, [f'hostPath.path: Invalid value: "/a/../b": {BACKSTEPS}']),
        ({"hostPath": {"path": "/a", "type": "Socket"}}, []),
        ({"hostPath": {"path": "/a", "type": "X"}},
         ['hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", '
          '"DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
        ({"gitRepo": {"repository": "r", "directory": "/a"}}, [f'gitRepo.directory: Invalid value: "/a": {RELATIVE}']),
        *(({"gcePersistentDisk": {"pdName": "d", "partition": number}}, []) for number in (0, 255)),
        ({"gcePersistentDisk": {"pdName": "d", "partition": 256}},
         [f"persistentDisk.partition: Invalid value: 256: {PARTITION}"]),
        ({"awsElasticBlockStore": {"volumeID": "d", "partition": -1}},
         [f"awsElasticBlockStore.partition: Invalid value: -1: {PARTITION}"]),
        ({"nfs": {"server": "s", "path": "a"}}, ['nfs.path: Invalid value: "a": must be an absolute path']),
        ({"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 0}},
         ['iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa']),
        ({"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 255}}, []),
        ({"iscsi": {"targetPortal": "p", "iqn": "naa." + "0" * 32, "lun": 256}}, [f"iscsi.lun: Invalid value: 256: {RANGE}"]),
        ({"iscsi": {"targetPortal": "p", "iqn": "naa." + "0" * 32, "lun": -1}}, [f"iscsi.lun: Invalid value: -1: {RANGE}"]),
        ({"iscsi": {"targetPortal": "p", "iqn": "naa." + "0" * 31, "lun": 0}},
         [f'iscsi.iqn: Invalid value: "naa.{"0" * 31}": must be valid format']),
        ({"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 0, "chapAuthSession": True}},
         ["iscsi.secretRef: Required value"]),
        ({"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 0, "chapAuthDiscovery": True}},
         ["iscsi.secretRef: Required value"]),
        ({"iscsi": {"targetPortal": "p", "iqn": "eui.0123456789abcdef", "lun": 0, "initiatorName": "x"}},
         ['iscsi.initiatorname: Invalid value: "x": must be valid format starting with iqn, eui, or naa']),
        ({"iscsi": {"targetPortal": "p" * 62, "iqn": "eui.0123456789abcdef", "lun": 0,
                    "initiatorName": "eui.0123456789abcdef"}}, []),
        ({"iscsi": {"targetPortal": "p" * 63, "iqn": "eui.0123456789abcdef", "lun": 0,
                    "initiatorName": "eui.0123456789abcdef"}},
         ['name: Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters '
          "if iscsi.initiatorName is specified."]),
        ({"flocker": {"datasetName": "d"}}, []),
        ({"flocker": {}}, ["flocker: Required value: one of datasetName and datasetUUID is required"]),
        ({"flocker": {"datasetName": "d", "datasetUUID": "u"}},
         ['flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously']),
        ({"flocker": {"datasetName": "a/b"}}, ['flocker.datasetName: Invalid value: "a/b": must not contain \'/\'']),
        ({"cinder": {"volumeID": "d", "secretRef": {"name": ""}}}, ["cinder.secretRef.name: Required value"]),
        ({"quobyte": {"registry": "h:1,i:2", "volume": "v", "tenant": "t" * 64}}, []),
        ({"quobyte": {"registry": "h:1", "volume": "v", "tenant": "t" * 65}},
         ["quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"]),
        ({"quobyte": {"registry": "h:1,i", "volume": "v"}}, [f'quobyte.registry: Invalid value: "h:1,i": {HOST_PORT}']),
        ({"fc": {"targetWWNs": ["n"], "lun": 255}}, []),
        ({"fc": {"targetWWNs": ["n"], "lun": 0}}, []),
        ({"fc": {"targetWWNs": ["n"], "lun": -1}}, [f"fc.lun: Invalid value: -1: {RANGE}"]),
        ({"fc": {}}, ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        ({"fc": {"targetWWNs": ["n"], "wwids": ["i"], "lun": 1}},
         ['fc.targetWWNs: Invalid value: ["n"]: targetWWNs and wwids can not be specified simultaneously']),
        ({"fc": {"targetWWNs": ["n"]}}, ["fc.lun: Required value: lun is required if targetWWNs is specified"]),
        ({"fc": {"targetWWNs": ["n"], "lun": 256}}, [f"fc.lun: Invalid value: 256: {RANGE}"]),
        ({"flexVolume": {"driver": "d", "options": {"example.com/a": "b"}}}, []),
        ({"flexVolume": {"driver": "d", "options": {"k8s.io/a": "b"}}},
         ['flexVolume.options[k8s.io/a]: Invalid value: "k8s.io/a": kubernetes.io and k8s.io namespaces are reserved']),
        ({"secret": {"secretName": "s", "defaultMode": 0o777}}, []),
        ({"secret": {"secretName": "s", "defaultMode": 0o1000}}, [f"secret.defaultMode: Invalid value: 512: {MODE}"]),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "a/b", "mode": 0}]}}, []),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "a", "mode": -1}]}},
         [f"configMap.items[0].mode: Invalid value: -1: {MODE}"]),
        ({"secret": {"secretName": "s", "items": [{"key": "", "path": "a"}]}}, ["secret.items[0].key: Required value"]),
        ({"configMap": {"name": "c", "defaultMode": 0o1000}}, [f"configMap.defaultMode: Invalid value: 512: {MODE}"]),
        ({"configMap": {"name": "c", "items": [{"key": "", "path": "a"}]}}, ["configMap.items[0].key: Required value"]),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": ""}]}}, ["configMap.items[0].path: Required value"]),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "/a"}]}},
         [f'configMap.items[0].path: Invalid value: "/a": {RELATIVE}']),
        ({"azureDisk": {"diskName": "d", "diskURI": "https://a", "cachingMode": "X"}},
         ['azureDisk.cachingMode: Unsupported value: "X": supported values: "None", "ReadOnly", "ReadWrite"']),
        ({"azureDisk": {"diskName": "d", "diskURI": "https://a", "kind": "X"}},
         ['azureDisk.kind: Unsupported value: "X": supported values: "Dedicated", "Managed", "Shared"']),
        ({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/a", "kind": "Managed"}}, []),
        ({"azureDisk": {"diskName": "d", "diskURI": "https://a", "kind": "Managed"}},
         ['azureDisk.diskURI: Unsupported value: "https://a": supported values: "/subscriptions/{sub-id}/resourcegroups/'
          '{group-name}/providers/microsoft.compute/disks/{disk-id}"']),
        ({"azureDisk": {"diskName": "d", "diskURI": "/a"}},
         ['azureDisk.diskURI: Unsupported value: "/a": supported values: '
          '"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"']),
        ({"storageos": {"volumeName": "a.b"}}, ['storageos.volumeName: Invalid value: "a.b": must not contain dots']),
        ({"storageos": {"volumeName": "v", "volumeNamespace": "a.b"}},
         ['storageos.volumeNamespace: Invalid value: "a.b": must not contain dots']),
        ({"storageos": {"volumeName": "v", "secretRef": {"name": ""}}}, ["storageos.secretRef.name: Required value"]),
        ({"csi": {"driver": "D" * 63}}, []),
        ({"csi": {"driver": "d" * 64}}, ["csi.driver: Too long: may not be more than 63 bytes"]),
        ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A"}}}, ['csi.name: Invalid value: "A": <subdomain>']),
        ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": ""}}}, ["csi.nodePublishSecretRef.name: Required value"]),
        ({"ephemeral": {}}, ["ephemeral.volumeClaimTemplate: Required value"]),
        ({"image": {"reference": ""}}, ["image.reference: Required value"]),
        ({"image": {"reference": "r", "pullPolicy": "X"}},
         ['image.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"']),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}}, []),
        ({"downwardAPI": {"items": [{"path": "a"}]}},
         ["downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"]),
        ({"downwardAPI": {"items": [{"path": "", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
         ["downwardAPI.path: Required value"]),
        ({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
         ["downwardAPI.resourceFieldRef.containerName: Required value"]),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"},
                                     "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}},
         ['downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously']),
        ({"downwardAPI": {"items": [{"path": "/a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
         [f'downwardAPI.path: Invalid value: "/a": {RELATIVE}']),
        ({"downwardAPI": {"items": [{"path": "..a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
         ["downwardAPI.path: Invalid value: \"..a\": must not start with '..'"]),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.host"}}]}},
         ['downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", '
          '"metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"']),
        ({"downwardAPI": {"items": [{"path": "a", "mode": -1, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}]}},
         [f"downwardAPI.mode: Invalid value: -1: {MODE}"]),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": ""}}]}},
         ["downwardAPI.fieldRef.fieldPath: Required value"]),
        ({"projected": {"defaultMode": 0o1000, "sources": [{"secret": {"name": "s"}}]}},
         [f"projected.defaultMode: Invalid value: 512: {MODE}"]),
        ({"downwardAPI": {"defaultMode": 0o1000}}, [f"downwardAPI.defaultMode: Invalid value: 512: {MODE}"]),
    ],
)  # fmt: skip
def test_rules_of_a_kind(source: Object, texts: list[str]) -> None:
    assert of_volume(**source) == texts


TOKEN = {"path": "t", "expirationSeconds": 600}
BUNDLE = {"path": "b", "name": "n"}
CERTIFICATE = {"signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k"}


def certificate(**parts: Any) -> list[Object]:
    return [{"podCertificate": {**CERTIFICATE, **parts}}]


@pytest.mark.parametrize(
    ("sources", "texts"),
    [
        ([{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}], []),
        ([{"secret": {"name": ""}}], [".sources[0].secret.name: Required value"]),
        ([{"configMap": {"name": "c", "items": [{"key": "k", "path": "../a"}]}}],
         [f'.sources[0].configMap.items[0].path: Invalid value: "../a": {BACKSTEPS}']),
        ([{"secret": {"name": "s"}, "configMap": {"name": "c"}}],
         [".sources[0]: Forbidden: may not specify more than 1 volume type per source"]),
        ([{"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}},
          {"configMap": {"name": "c", "items": [{"key": "k", "path": "a"}]}}],
         [': Invalid value: "c": conflicting duplicate paths']),
        ([{"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}] * 2}}],
         [': Invalid value: "a": conflicting duplicate paths']),
        ([{"downwardAPI": {"items": [{"path": "a"}]}}],
         [".sources[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"]),
        ([{"serviceAccountToken": {**TOKEN, "expirationSeconds": 1 << 32}}], []),
        ([{"serviceAccountToken": {**TOKEN, "expirationSeconds": 599}}],
         [".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: "
          "may not specify a duration less than 10 minutes"]),
        ([{"serviceAccountToken": {**TOKEN, "expirationSeconds": (1 << 32) + 1}}],
         [".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: "
          "may not specify a duration larger than 2^32 seconds"]),
        ([{"serviceAccountToken": {**TOKEN, "path": ""}}], [".path: Required value"]),
        ([{"serviceAccountToken": {**TOKEN, "path": "/t"}}], [f'.path: Invalid value: "/t": {RELATIVE}']),
        ([{"clusterTrustBundle": BUNDLE}, {"clusterTrustBundle": {"path": "c", "signerName": "a.b/c", "labelSelector": {}}}], []),
        ([{"clusterTrustBundle": {"path": "b"}}],
         [".sources[0].clusterTrustBundle: Required value: either name or signerName must be specified"]),
        ([{"clusterTrustBundle": {**BUNDLE, "name": ""}}],
         [".sources[0].clusterTrustBundle.name: Required value: must be a valid object name",
          '.sources[0].clusterTrustBundle.name: Invalid value: "": not a valid clustertrustbundlename: <subdomain>']),
        ([{"clusterTrustBundle": {**BUNDLE, "name": "a.b:c:D"}}],
         ['.sources[0].clusterTrustBundle.name: Invalid value: "a.b:c:D": not a valid clustertrustbundlename: <subdomain>']),
        ([{"clusterTrustBundle": {"path": "b", "signerName": "a.b/c", "labelSelector": {"matchLabels": {"a": "-"}}}}],
         ['.sources[0].clusterTrustBundle.labelSelector.matchLabels: Invalid value: "-": <label value>']),
        ([{"clusterTrustBundle": {"path": "b", "signerName": ""}}],
         [".sources[0].clusterTrustBundle.signerName: Required value: must be a valid signer name",
          ".sources[0].clusterTrustBundle.signerName: Required value"]),
        ([{"clusterTrustBundle": {"path": "b", "signerName": "a"}}],
         [f'.sources[0].clusterTrustBundle.signerName: Invalid value: "a": {SIGNER}']),
        ([{"clusterTrustBundle": {**BUNDLE, "path": "/b"}}],
         [f'.sources[0].clusterTrustBundle.path: Invalid value: "/b": {RELATIVE}']),
        ([{"clusterTrustBundle": {**BUNDLE, "path": ""}}], [".sources[0].clusterTrustBundle.path: Required value"]),
        ([{"clusterTrustBundle": BUNDLE}] * 2, [': Invalid value: "b": conflicting duplicate paths']),
        (certificate(maxExpirationSeconds=3600, certificateChainPath="c", userAnnotations={"a.b/c": "d"}), []),
        (certificate(signerName="a"), [f'.sources[0].podCertificate.signerName: Invalid value: "a": {SIGNER}']),
        (certificate(keyPath="/k"), [f'.sources[0].podCertificate.keyPath: Invalid value: "/k": {RELATIVE}']),
        (certificate(credentialBundlePath="/k"),
         [f'.sources[0].podCertificate.credentialBundlePath: Invalid value: "/k": {RELATIVE}']),
        (certificate(keyType="X"),
         ['.sources[0].podCertificate.keyType: Unsupported value: "X": supported values: "RSA3072", "RSA4096", "ECDSAP256", '
          '"ECDSAP384", "ECDSAP521", "ED25519"']),
        (certificate(maxExpirationSeconds=3599),
         [".sources[0].podCertificate.maxExpirationSeconds: Invalid value: 3599: "
          "if provided, maxExpirationSeconds must be >= 3600"]),
        (certificate(maxExpirationSeconds=7862400), []),
        (certificate(maxExpirationSeconds=7862401),
         [".sources[0].podCertificate.maxExpirationSeconds: Invalid value: 7862401: "
          "if provided, maxExpirationSeconds must be <= 7862400"]),
        (certificate(signerName="kubernetes.io/a", maxExpirationSeconds=86401),
         [".sources[0].podCertificate.maxExpirationSeconds: Invalid value: 86401: "
          "if provided, maxExpirationSeconds must be <= 86400"]),
        (certificate(keyPath=""),
         [".sources[0].podCertificate: Required value: "
          "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"]),
        (certificate(certificateChainPath="k"), [': Invalid value: "k": conflicting duplicate paths']),
        (certificate(userAnnotations={"a": "d"}),
         ['.sources[0].podCertificate.userAnnotations: Invalid value: "a": '
          'must be a domain-prefixed key (such as "acme.io/foo")']),
        (certificate(userAnnotations={"a.b/c": "d" * (256 * 1024 - 5)}), []),
        (certificate(userAnnotations={"a.b/c": "d" * (256 * 1024 - 4)}),
         [".sources[0].podCertificate.userAnnotations: Too long: may not be more than 262144 bytes"]),
        (certificate(userAnnotations={"": "c", "a": "d"}),
         [".sources[0].podCertificate.userAnnotations: Required value",
          '.sources[0].podCertificate.userAnnotations: Invalid value: "a": '
          'must be a domain-prefixed key (such as "acme.io/foo")']),
    ],
)  # fmt: skip
def test_projected_volume(sources: list[Object], texts: list[str]) -> None:
    assert of_volume(PROJECTED, projected={"sources": sources}) == [f"projected{text}" for text in texts]


def test_bundle_has_a_name_or_a_signer() -> None:
    (found,) = of_volume(PROJECTED, projected={"sources": [{"clusterTrustBundle": {**BUNDLE, "signerName": "a.b/c"}}]})
    assert found.endswith("only one of name and signerName may be used")
    (found,) = of_volume(PROJECTED, projected={"sources": [{"clusterTrustBundle": {**BUNDLE, "labelSelector": {}}}]})
    assert found.endswith("labelSelector must be unset if name is specified")


def test_claims_that_are_made_for_a_pod() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
    made = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    assert of_volumes(made, {"name": "w", "persistentVolumeClaim": {"claimName": "b-v"}}) == []
    assert of_volumes(made, {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}}) == [
        '[1].persistentVolumeClaim.claimName: Invalid value: "a-v": must not reference a PVC that gets created for an '
        "ephemeral volume"
    ]


def test_names_of_claims_that_are_made_for_a_pod() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    spec = {"containers": CONTAINERS, "volumes": [volume]}
    assert problems(RESOURCE, metadata={"name": "a" * 251}, spec=spec) == []
    name = "a" * 252
    assert problems(RESOURCE, metadata={"name": name}, spec=spec) == [
        f'spec.volumes[0].name: Invalid value: "v": PVC name "{name}-v": must be no more than 253 characters'
    ]
