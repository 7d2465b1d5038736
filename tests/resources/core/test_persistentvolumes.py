"""PersistentVolumes: sources that pods have, too, are checked and defaulted as there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery.feature_gates import resolve
from kapi.machinery.tree import Object
from kapi.resources.core import persistentvolumeclaims, persistentvolumes, pods
from kapi.resources.storage import volumeattachments
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources.strategy_kit import CTX, changes, made, problems, short


def created(**spec: Any) -> tuple[int, Any]:
    api = succeed(MemoryAPI.started())
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    request = api.ask(
        "POST", "/api/v1/persistentvolumes",
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": volume},
    )  # fmt: skip
    return request.code, request.json


@pytest.mark.parametrize(
    "name", ["iqn.2001-04.com.Example:storage.1", f"naa.{'z' * 32}", f"eui.{'X' * 16}", "iqn.2001-04.a-b.c:d"]
)
def test_names_of_initiators_may_have_letters_of_any_case(name: str) -> None:
    """As for a pod: upstream's expressions say ``[[:alnum:]]``."""
    code, answer = created(iscsi={"targetPortal": "1.2.3.4:1", "iqn": name, "lun": 0, "initiatorName": name})
    assert code == 201, answer


def test_names_of_initiators_that_have_no_form() -> None:
    code, answer = created(iscsi={"targetPortal": "1.2.3.4:1", "iqn": "iqn.2001-4.a:b", "initiatorName": "x", "lun": 0})
    assert code == 422
    assert [(cause["field"], cause["message"].rpartition(": ")[2]) for cause in answer["details"]["causes"]] == [
        ("spec.iscsi.iqn", "must be valid format"), ("spec.iscsi.initiatorname", "must be valid format"),
    ]  # fmt: skip


@pytest.mark.parametrize("registry", ["a[b:80", "a:8]0", "[a[b]:80", "a:b:80", "[::1]80"])
def test_a_registry_is_a_host_and_a_port(registry: str) -> None:
    code, answer = created(quobyte={"registry": registry, "volume": "v"})
    assert code == 422, answer


def test_an_empty_text_that_is_a_pointer_in_go_is_a_value() -> None:
    code, answer = created(azureDisk={"diskName": "d", "diskURI": "https://blob", "fsType": ""})
    assert (code, answer["spec"]["azureDisk"]) == (201, {
        "diskName": "d", "diskURI": "https://blob", "fsType": "", "cachingMode": "ReadWrite", "readOnly": False, "kind": "Shared",
    })  # fmt: skip
    code, answer = created(azureDisk={"diskName": "d", "diskURI": "https://blob", "cachingMode": ""})
    assert code == 422, answer


def test_an_empty_text_that_is_none_in_go_is_not_there() -> None:
    code, answer = created(rbd={"monitors": ["m"], "image": "i", "pool": "", "user": "", "keyring": ""})
    assert code == 201, answer
    assert answer["spec"]["rbd"] == {
        "monitors": ["m"], "image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring",
    }  # fmt: skip


def in_term(expression: Object) -> Object:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.parametrize(("on", "code"), [(False, 422), (True, 200)])
def test_the_affinity_may_change_with_its_gate(on: bool, code: int) -> None:
    api = succeed(MemoryAPI.started())
    api.environment.features = resolve({"MutablePVNodeAffinity": on})

    def in_zone(zone: str) -> Any:
        return in_term({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]})

    volume = {
        "metadata": {"name": "a"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"},
            "nodeAffinity": in_zone("a"),
        },
    }  # fmt: skip
    made = api.ask("POST", "/api/v1/persistentvolumes", volume)
    assert made.code == 201, made.json
    changed = made.json
    changed["spec"]["nodeAffinity"] = in_zone("b")
    assert api.ask("PUT", "/api/v1/persistentvolumes/a", changed).code == code


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"flocker": {}}, ["spec.flocker", "spec.flocker", "spec.persistentvolumesource"]),
        ({"nodeAffinity": in_term({"operator": "Exists"})},
         ["spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key"] * 4),
    ],
)  # fmt: skip
def test_a_source_that_is_added_empty_and_an_affinity_without_a_key(changes: Object, fields: list[str]) -> None:
    api = succeed(MemoryAPI.started())
    volume: Object = {
        "metadata": {"name": "a"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"},
            "nodeAffinity": in_term({"key": "k", "operator": "Exists"}),
        },
    }  # fmt: skip
    made = api.ask("POST", "/api/v1/persistentvolumes", volume).json
    made["spec"].update(changes)
    answer = api.ask("PUT", "/api/v1/persistentvolumes/a", made)
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == fields


@pytest.mark.parametrize("on", [False, True])
def test_a_claim_may_name_a_source_in_another_namespace_with_its_gate(on: bool) -> None:
    api = succeed(MemoryAPI.started())
    api.environment.features = resolve({"CrossNamespaceVolumeDataSource": on})
    source = {"kind": "PersistentVolumeClaim", "name": "theirs", "namespace": "other"}
    spec = {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSourceRef": source,
    }  # fmt: skip
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    made = api.ask("POST", claims, {"metadata": {"name": "c"}, "spec": spec})
    assert made.code == 201, made.json
    assert made.json["spec"].get("dataSourceRef") == ({"apiGroup": None, **source} if on else None)
    assert "dataSource" not in made.json["spec"]


PORTAL = "1.2.3.4:1"
ISCSI: Object = {"targetPortal": PORTAL, "iqn": "iqn.2001-04.a.b:c", "lun": 0}
ZONE: Object = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}
}
SECRET: Object = {"name": "s", "namespace": "n"}
VALID = "must be a valid resource quantity"


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({}, [": Required value: must specify a volume type"]),
        ({"nfs": {"server": "s", "path": "/"}}, []),
        ({"nfs": {"server": "s", "path": "/"}, "flocker": {"datasetName": "d"}},
         [".nfs: Forbidden: may not specify more than 1 volume type"]),
        ({"nfs": {"server": "s", "path": "/"}, "cephfs": {"monitors": ["m"]}},
         [".cephFS: Forbidden: may not specify more than 1 volume type"]),
        ({"local": {"path": "/a"}, "nodeAffinity": ZONE}, []),
        ({"local": {"path": "/a"}}, [".nodeAffinity: Required value: Local volume requires node affinity"]),
        ({"local": {"path": "/a/../b"}, "nodeAffinity": ZONE},
         [".local.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        ({"local": {"path": ""}, "nodeAffinity": ZONE}, [".local.path: Required value"]),
        ({"glusterfs": {"endpoints": "", "path": "p"}}, [".glusterfs.endpoints: Required value"]),
        ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
         [".glusterfs.endpointsNamespace: Invalid value: \"\": "
          "if the endpointnamespace is set, it must be a valid namespace name"]),
        ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": "A"}},
         ['.glusterfs.endpointsNamespace: Invalid value: "A": <label>']),
        ({"iscsi": {**ISCSI, "chapAuthSession": True, "secretRef": {"name": "s"}}}, []),
        ({"iscsi": {**ISCSI, "targetPortal": ""}}, [".iscsi.targetPortal: Required value"]),
        ({"iscsi": {**ISCSI, "targetPortal": "p" * 62, "initiatorName": ISCSI["iqn"]}}, []),
        ({"iscsi": {**ISCSI, "targetPortal": "p" * 63, "initiatorName": ISCSI["iqn"]}},
         [f".iscsi.targetportal: Invalid value: \"{'p' * 63}\": Total length of <volume name>:<iscsi.targetPortal> must be under "
          "64 characters if iscsi.initiatorName is specified."]),
        ({"iscsi": {**ISCSI, "iqn": ""}}, [".iscsi.iqn: Required value"]),
        ({"iscsi": {**ISCSI, "lun": 256}}, [".iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
        ({"iscsi": {**ISCSI, "chapAuthDiscovery": True}}, [".iscsi.secretRef: Required value"]),
        ({"iscsi": {**ISCSI, "secretRef": {}}}, [".iscsi.secretRef.name: Required value"]),
        ({"cinder": {"volumeID": "", "secretRef": {}}},
         [".cinder.volumeID: Required value", ".cinder.secretRef.name: Required value",
          ".cinder.secretRef.namespace: Required value"]),
        ({"azureFile": {"secretName": "", "shareName": "", "secretNamespace": ""}},
         [".azureFile.secretName: Required value", ".azureFile.shareName: Required value",
          ".azureFile.secretNamespace: Required value"]),
        ({"storageos": {"volumeName": "A", "volumeNamespace": "B", "secretRef": {}}},
         ['.storageos.volumeName: Invalid value: "A": <label>', '.storageos.volumeNamespace: Invalid value: "B": <label>',
          ".storageos.secretRef.name: Required value", ".storageos.secretRef.namespace: Required value"]),
        ({"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": SECRET, "nodeStageSecretRef": {}}}, []),
        ({"csi": {"driver": "", "volumeHandle": ""}}, [".csi.driver: Required value", ".csi.volumeHandle: Required value"]),
        *[
            ({"csi": {"driver": "d", "volumeHandle": "h", name: {"name": "A", "namespace": ""}}},
             [f'.csi.{name}.name: Invalid value: "A": <subdomain>', f".csi.{name}.namespace: Required value"])
            for name in ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
        ],
        ({"nfs": {"server": "s", "path": "/"}, "accessModes": []}, [".accessModes: Required value"]),
        ({"nfs": {"server": "s", "path": "/"}, "accessModes": ["X"]},
         ['.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", '
          '"ReadWriteOncePod"']),
        ({"nfs": {"server": "s", "path": "/"}, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
         [".accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
        ({"nfs": {"server": "s", "path": "/"}, "capacity": {}},
         [".capacity: Required value", '.capacity: Unsupported value: null: supported values: "storage"']),
        ({"nfs": {"server": "s", "path": "/"}, "capacity": {"storage": "-1"}},
         [f".capacity[storage]: Invalid value: -1: {VALID}",
          '.capacity[storage]: Invalid value: "-1": must be greater than zero']),
        ({"nfs": {"server": "s", "path": "/"}, "persistentVolumeReclaimPolicy": "X"},
         ['.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"']),
        ({"hostPath": {"path": "/a/.."}, "persistentVolumeReclaimPolicy": "Recycle"},
         [".hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
          ".persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
        ({"nfs": {"server": "s", "path": "/"}, "nodeAffinity": {}},
         [".nodeAffinity.required: Required value: must specify required node constraints"]),
        ({"nfs": {"server": "s", "path": "/"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
         [".nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"]),
        ({"nfs": {"server": "s", "path": "/"}, "storageClassName": "A"},
         ['.storageClassName: Invalid value: "A": <subdomain>']),
        ({"nfs": {"server": "s", "path": "/"}, "volumeMode": "X"},
         ['.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"']),
        ({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeAttributesClassName": "A"},
         ['.volumeAttributesClassName: Invalid value: "A": <subdomain>']),
        ({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeAttributesClassName": ""},
         [".volumeAttributesClassName: Required value: an empty string is disallowed"]),
        ({"nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": "a"},
         [".csi: Required value: has to be specified when using volumeAttributesClassName"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_volume(part: Object, texts: list[str]) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **part}
    assert short(problems(persistentvolumes.RESOURCE, spec=spec), "spec") == texts


INLINE = "in the context of inline volumes"


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({}, []),
        ({"csi": None}, [f".csi: Required value: has to be specified {INLINE}", ": Required value: must specify a volume type"]),
        ({"capacity": {"storage": "1"}}, [f".capacity: Forbidden: may not be specified {INLINE}"]),
        ({"volumeAttributesClassName": "a/b"}, []),
        ({"claimRef": {"name": "c", "namespace": "n"}}, [f".claimRef: Forbidden: may not be specified {INLINE}"]),
        ({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}, []),
        ({"persistentVolumeReclaimPolicy": "Delete"},
         [f".persistentVolumeReclaimPolicy: Forbidden: may only be Retain {INLINE}"]),
        ({"nodeAffinity": ZONE}, [f".nodeAffinity: Forbidden: may not be specified {INLINE}"]),
        ({"storageClassName": "a"}, [f".storageClassName: Forbidden: may not be specified {INLINE}"]),
        ({"volumeMode": "Block"}, [f".volumeMode: Forbidden: may not specify volumeMode other than Filesystem {INLINE}"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_volume_that_an_attachment_carries(part: Object, texts: list[str]) -> None:
    inline = {"csi": {"driver": "d", "volumeHandle": "h"}, "accessModes": ["ReadWriteOnce"], **part}
    spec = {"attacher": "d", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}
    found = problems(volumeattachments.RESOURCE, spec=spec)
    assert short(found, "spec.source.inlineVolumeSpec") == texts


CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ITS: Object = {"kind": "PersistentVolumeClaim", "name": "c"}


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ({"dataSource": ITS, "dataSourceRef": ITS}, []),
        ({"resources": {}}, [".resources[storage]: Required value"]),
        ({"resources": {"requests": {"storage": "0"}}},
         ['.resources[storage]: Invalid value: "0": must be greater than zero']),
        ({"accessModes": []}, [".accessModes: Required value: at least 1 access mode is required"]),
        ({"selector": {"matchLabels": {"a": "-"}}}, ['.selector.matchLabels: Invalid value: "-": <label value>']),
        ({"storageClassName": "A"}, ['.storageClassName: Invalid value: "A": <subdomain>']),
        ({"volumeMode": "X"}, ['.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"']),
        ({"volumeAttributesClassName": "A"}, ['.volumeAttributesClassName: Invalid value: "A": <subdomain>']),
        ({"dataSource": ITS, "dataSourceRef": {**ITS, "name": "d"}}, [": Invalid value: {}: must match dataSourceRef"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_claim(part: Object, texts: list[str]) -> None:
    assert short(problems(persistentvolumeclaims.RESOURCE, spec={**CLAIM, **part}), "spec") == texts


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ({"kind": "", "name": "", "apiGroup": "a"}, [".name: Required value", ".kind: Required value"]),
        ({"kind": "K", "name": "n"},
         [': Invalid value: "K": must be \'PersistentVolumeClaim\' when referencing the default apiGroup']),
        ({"kind": "K", "name": "n", "apiGroup": "A"}, ['.apiGroup: Invalid value: "A": <subdomain>']),
    ],
)  # fmt: skip
def test_what_a_claim_is_filled_from_is_checked_in_both_its_fields(source: Object, texts: list[str]) -> None:
    spec = {**CLAIM, "dataSource": source, "dataSourceRef": source}
    assert short(problems(persistentvolumeclaims.RESOURCE, spec=spec), "spec") == [
        f".{name}{text}" for name in ("dataSource", "dataSourceRef") for text in texts
    ]


def test_a_source_in_another_namespace_has_a_form_and_is_given_once() -> None:
    ctx = msgspec.structs.replace(CTX, features={"CrossNamespaceVolumeDataSource": True})
    spec = {**CLAIM, "dataSource": ITS, "dataSourceRef": {**ITS, "namespace": "A"}}
    assert short(problems(persistentvolumeclaims.RESOURCE, ctx, spec=spec), "spec") == [
        '.dataSourceRef.namespace: Invalid value: "A": <label>',
        ": Invalid value: {}: may not be specified when dataSourceRef.namespace is specified",
    ]


def test_a_claim_in_a_pod_has_the_same_rules_and_little_metadata() -> None:
    def volume(**template: Any) -> list[str]:
        claim = {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM, **template}}, "name": "v"}
        found = problems(pods.RESOURCE, spec={"containers": [{"name": "c", "image": "i"}], "volumes": [claim]})
        return short(found, "spec.volumes[0].ephemeral.volumeClaimTemplate")

    assert volume(metadata={"labels": {"a": "b"}}) == []
    assert volume(metadata={"annotations": {"-": ""}, "labels": {"-": ""}, "name": "n"}) == [
        '.metadata.annotations: Invalid value: "-": <name part>',
        '.metadata.labels: Invalid value: "-": <name part>',
        ".metadata.name: Forbidden: cannot be set",
    ]
    assert volume(spec={**CLAIM, "accessModes": []}) == [
        ".spec.accessModes: Required value: at least 1 access mode is required"
    ]


def test_a_claim_may_keep_a_selector_that_was_accepted() -> None:
    def selector(value: str) -> Object:
        return {
            **CLAIM,
            "volumeName": "v",
            "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]},
        }

    row = persistentvolumeclaims.RESOURCE
    old = made(row, spec=selector("-"))
    assert changes(row, old, spec=old["spec"]) == []


@pytest.mark.parametrize(
    ("size", "capacity", "refused"),
    [
        ("3", "1", False),
        ("2", "2", False),
        ("1", "999m", False),
        ("1", "1", True),
        ("1", "2", True),
        ("1", None, False),
    ],
)
def test_a_bound_claim_shrinks_to_no_less_than_its_volume(size: str, capacity: str | None, refused: bool) -> None:
    """Upstream lets an administrator take back an expansion that failed, but not to the size that there is."""
    row = persistentvolumeclaims.RESOURCE
    old = made(row, spec={**CLAIM, "volumeName": "v", "resources": {"requests": {"storage": "2"}}})
    old["status"] = {"phase": "Bound", "capacity": {} if capacity is None else {"storage": capacity}}
    new = {**old["spec"], "resources": {"requests": {"storage": size}}}
    text = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    assert short(changes(row, old, spec=new, status=old["status"])) == ([text] if refused else [])


def of_claim_status(spec: Object | None = None, **status: Any) -> list[str]:
    row = persistentvolumeclaims.RESOURCE
    old = {**made(row, spec=CLAIM), "spec": {**CLAIM, **(spec or {})}}
    return short(changes(row, old, subresource="status", status=status))


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"capacity": {"storage": "1"}, "allocatedResources": {"storage": "1", "example.com/a": "1"},
          "allocatedResourceStatuses": {"storage": "NodeResizePending"}}, []),
        ({"capacity": {"storage": "-1"}}, [f"status.capacity[storage]: Invalid value: -1: {VALID}"]),
        ({"allocatedResources": {"storage": "-1"}}, [f"status.allocatedResources[storage]: Invalid value: -1: {VALID}"]),
        ({"allocatedResources": {"storage": "-100m"}}, [f"status.allocatedResources[storage]: Invalid value: -1: {VALID}"]),
        ({"allocatedResources": {"a b": "1"}}, ['status.allocatedResources: Invalid value: "a b": <name part>']),
        ({"allocatedResources": {"cpu": "1"}},
         ['status.allocatedResources: Unsupported value: "cpu": supported values: "storage"']),
        ({"allocatedResourceStatuses": {"cpu": "NodeResizePending"}},
         ['status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"']),
        # upstream shows the resource
        ({"allocatedResourceStatuses": {"storage": "X"}},
         ['status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", '
          '"ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"']),
    ],
)  # fmt: skip
def test_the_status_of_a_claim(status: Object, texts: list[str]) -> None:
    assert of_claim_status(**status) == texts


def test_a_claim_without_a_mode_has_no_status() -> None:
    assert of_claim_status({"accessModes": []}, phase="Bound") == ["Spec.accessModes: Required value"]


def test_a_changed_claim() -> None:
    row = persistentvolumeclaims.RESOURCE
    old = made(row, spec={**CLAIM, "volumeName": "v"})
    found = changes(row, old, spec={**old["spec"], "volumeMode": "Block", "accessModes": []})
    assert [
        text for text in found if not text.startswith("spec: Forbidden: spec is immutable after creation except")
    ] == [
        "spec.accessModes: Required value: at least 1 access mode is required",
        'volumeMode: Invalid value: "Block": field is immutable',
    ]


def test_a_changed_volume() -> None:
    """Upstream checks the whole object twice."""
    row, wrong = persistentvolumes.RESOURCE, "volume.beta.kubernetes.io/mount-options"
    csi = {"driver": "d", "volumeHandle": "h"}
    spec = {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    old = made(row, spec={**spec, "volumeAttributesClassName": "c"})
    assert changes(row, old, spec={**old["spec"], "accessModes": []}) == ["spec.accessModes: Required value"] * 2
    metadata = {**old["metadata"], "annotations": {wrong: "a"}}
    text = f"metadata.annotations.{wrong}: Forbidden: may not specify mount options for this volume type"
    assert changes(row, old, metadata=metadata) == [text]
    without = {name: value for name, value in old["spec"].items() if name != "volumeAttributesClassName"}
    assert changes(row, old, spec=without) == [
        "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"
    ]


def test_only_some_volumes_have_mount_options_in_an_annotation() -> None:
    mountable = (
        "gcePersistentDisk awsElasticBlockStore glusterfs nfs rbd quobyte iscsi cinder cephfs azureFile vsphereVolume "
        "azureDisk photonPersistentDisk"
    ).split()
    name = "volume.beta.kubernetes.io/mount-options"
    text = f"metadata.annotations.{name}: Forbidden: may not specify mount options for this volume type"
    for source in (*mountable, "hostPath", "fc", "flocker", "flexVolume", "portworxVolume", "scaleIO", "local", "csi"):
        found = problems(persistentvolumes.RESOURCE, metadata={"annotations": {name: "a"}}, spec={source: {}})
        assert (text in found) is (source not in mountable), source
