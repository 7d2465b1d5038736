"""Volumes, claims, classes and CSI objects: defaults, what they are refused for, and what may change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.core import persistentvolumeclaims, persistentvolumes
from kapi.resources.storage import csi, storageclasses, volumeattachments
from tests.resources.strategy_kit import CTX, changes, made, problems, short

VOLUME: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CSI: Object = {"driver": "d.example.com", "volumeHandle": "h"}


def volume(**parts: Any) -> Object:
    return {**VOLUME, **parts}


def source(**parts: Any) -> Object:
    """A volume with this source in place of its path."""
    return {**{name: value for name, value in VOLUME.items() if name != "hostPath"}, **parts}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (VOLUME, []),
        (
            {},
            [
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                'spec.capacity: Unsupported value: null: supported values: "storage"',
                "spec: Required value: must specify a volume type",
            ],
        ),
        (
            volume(accessModes=["ReadWriteOncePod", "ReadWriteMany"]),
            ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        (
            volume(capacity={"storage": "0"}),
            ['spec.capacity[storage]: Invalid value: "0": must be greater than zero'],
        ),
        (
            volume(nfs={"server": "s", "path": "/p"}),
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volume(persistentVolumeReclaimPolicy="Keep"),
            [
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": '
                'supported values: "Delete", "Recycle", "Retain"'
            ],
        ),
        (
            volume(hostPath={"path": "/x/.."}, persistentVolumeReclaimPolicy="Recycle"),
            [
                "spec.hostPath.path: Invalid value: \"/x/..\": must not contain '..'",
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        ),
        (
            source(local={"path": "/d"}),
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            source(csi={"driver": "d.example.com"}),
            ["spec.csi.volumeHandle: Required value"],
        ),
        (
            source(nfs={"server": "s", "path": "p"}),
            ['spec.nfs.path: Invalid value: "p": must be an absolute path'],
        ),
        (
            volume(volumeMode="Tape", volumeAttributesClassName="gold"),
            [
                'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"',
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
    ],
)
def test_the_spec_of_a_volume(spec: Object, texts: list[str]) -> None:
    assert problems(persistentvolumes.RESOURCE, spec=spec) == texts


def test_a_volume_has_defaults() -> None:
    obj = made(persistentvolumes.RESOURCE, spec=VOLUME)
    assert obj["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert obj["spec"]["volumeMode"] == "Filesystem" and obj["spec"]["hostPath"]["type"] == ""
    assert obj["status"] == {"phase": "Pending", "lastPhaseTransitionTime": CTX.now}


def test_the_source_of_a_volume_is_fixed_but_for_the_secret_to_expand_it() -> None:
    row = persistentvolumes.RESOURCE
    old = made(row, spec=source(csi=CSI))
    spec = tree.copy(old["spec"])
    spec["csi"]["controllerExpandSecretRef"] = {"name": "s", "namespace": "n"}
    assert changes(row, old, spec=spec) == []
    spec["csi"]["volumeHandle"] = "other"
    (found,) = changes(row, old, spec=spec)
    assert found.startswith(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
    )


def test_the_phase_of_a_volume_has_its_time() -> None:
    row = persistentvolumes.RESOURCE
    status = row.subresource("status")
    assert status is not None and status.strategy is not None
    old = made(row, spec=VOLUME)
    old["status"]["lastPhaseTransitionTime"] = "2020-01-01T00:00:00Z"
    for phase, time in (("Pending", "2020-01-01T00:00:00Z"), ("Bound", CTX.now)):
        new = {**tree.copy(old), "status": {"phase": phase}}
        status.strategy.prepare_for_update(new, old, CTX)
        assert new["status"] == {"phase": phase, "lastPhaseTransitionTime": time}


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (CLAIM, []),
        (
            {},
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            {**CLAIM, "resources": {"requests": {"storage": "-1"}}},
            ['spec.resources[storage]: Invalid value: "-1": must be greater than zero'],
        ),
        (
            {**CLAIM, "accessModes": ["RWO"]},
            [
                'spec.accessModes: Unsupported value: "RWO": supported values: "ReadOnlyMany", "ReadWriteMany", '
                '"ReadWriteOnce", "ReadWriteOncePod"'
            ],
        ),
        (
            {**CLAIM, "volumeMode": ""},
            ['spec.volumeMode: Unsupported value: "": supported values: "Block", "Filesystem"'],
        ),
    ],
)
def test_the_spec_of_a_claim(spec: Object, texts: list[str]) -> None:
    assert problems(persistentvolumeclaims.RESOURCE, spec=spec) == texts


def test_what_of_a_claim_may_change() -> None:
    row = persistentvolumeclaims.RESOURCE
    old = made(row, spec=CLAIM)
    assert changes(row, old, spec={**old["spec"], "volumeName": "v"}) == []
    assert changes(row, old, spec={**old["spec"], "storageClassName": "s"}) == []
    (found,) = changes(row, old, spec={**old["spec"], "accessModes": ["ReadWriteMany"]})
    assert found.startswith("spec: Forbidden: spec is immutable after creation except resources.requests and ")
    bound = {**old, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    larger = {**old["spec"], "resources": {"requests": {"storage": "2Gi"}}}
    assert changes(row, bound, spec=larger) == []
    assert len(changes(row, old, spec=larger)) == 1
    smaller = {**old["spec"], "resources": {"requests": {"storage": "1"}}}
    assert changes(row, bound, spec=smaller) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def in_class(annotation: str | None, name: str | None) -> Object:
    """A claim with the former annotation, the field, or both."""
    metadata = {} if annotation is None else {"annotations": {OLD_CLASS: annotation}}
    spec = CLAIM if name is None else {**CLAIM, "storageClassName": name}
    return made(persistentvolumeclaims.RESOURCE, metadata=metadata, spec=spec)


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ((None, None), (None, "s"), []),
        (("s", None), ("s", "s"), []),
        (("s", None), (None, "s"), []),
        (("s", None), ("s", None), []),
        (("", None), (None, None), []),
        (("s", None), (None, None), [f"metadata.annotations.{OLD_CLASS}"]),
        (("s", None), ("t", None), [f"metadata.annotations.{OLD_CLASS}"]),
        ((None, None), ("s", None), [f"metadata.annotations.{OLD_CLASS}"]),
        (("s", None), ("s", "t"), ["spec"]),
        (("s", None), ("t", "s"), [f"metadata.annotations.{OLD_CLASS}"]),
        ((None, "s"), (None, "t"), ["spec"]),
        ((None, "s"), (None, None), ["spec"]),
    ],
)
def test_the_class_of_a_claim_is_set_once(before: Any, after: Any, places: list[str]) -> None:
    old, new = in_class(*before), in_class(*after)
    metadata = {**new["metadata"], "uid": "u", "resourceVersion": "1"}
    found = changes(persistentvolumeclaims.RESOURCE, old, metadata=metadata, spec=new["spec"])
    assert [text.partition(":")[0] for text in found] == places


def test_the_former_annotation_for_a_class_is_warned_of() -> None:
    strategy = persistentvolumeclaims.RESOURCE.strategy
    text = f'metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'
    for obj, wanted in ((in_class("s", None), [text]), (in_class(None, "s"), [])):
        assert strategy.warnings_on_create(obj, CTX) == wanted
        assert strategy.warnings_on_update(obj, obj, CTX) == wanted


@pytest.mark.parametrize(
    ("before", "current", "after", "what"),
    [
        ("a", "a", "b", ""),
        ("a", "a", None, "nil"),
        ("a", "a", "", "empty string"),
        ("a", None, None, ""),
        ("a", None, "", ""),
        (None, "a", None, ""),
        ("", "a", "", ""),
        ("", "a", None, "nil"),
    ],
)
def test_attributes_that_a_volume_has_got_are_not_taken_away(
    before: str | None, current: str | None, after: str | None, what: str
) -> None:
    status: Object = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    if current is not None:
        status["currentVolumeAttributesClassName"] = current

    def spec(name: str | None) -> Object:
        return CLAIM if name is None else {**CLAIM, "volumeAttributesClassName": name}

    old = {**made(persistentvolumeclaims.RESOURCE, spec=spec(before)), "status": status}
    new = made(persistentvolumeclaims.RESOURCE, spec=spec(after))
    assert changes(persistentvolumeclaims.RESOURCE, old, spec=new["spec"]) == [
        f"spec.volumeAttributesClassName: Forbidden: update to {what} is forbidden when "
        "status.currentVolumeAttributesClassName is not nil"
    ] * bool(what)


def test_storage_classes() -> None:
    row = storageclasses.STORAGE_CLASS
    obj = made(row, provisioner="p")
    assert (obj["reclaimPolicy"], obj["volumeBindingMode"]) == ("Delete", "Immediate")
    assert problems(row, reclaimPolicy="Recycle", volumeBindingMode="Later") == [
        "provisioner: Required value",
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
    ]
    term = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}
    assert problems(row, provisioner="p", allowedTopologies=[term, term]) == [
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
        'allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
    ]
    assert changes(row, obj, provisioner="q", parameters={"a": "b"}) == [
        'parameters: Invalid value: {"a":"b"}: field is immutable',
        'provisioner: Invalid value: "q": field is immutable',
    ]
    assert changes(row, obj, allowVolumeExpansion=True) == []


def test_volume_attributes_classes() -> None:
    row = storageclasses.VOLUME_ATTRIBUTES_CLASS
    assert problems(row, driverName="d") == ["parameters: Required value: must contain at least one key/value pair"]
    old = made(row, driverName="d", parameters={"a": "b"})
    assert changes(row, old, driverName="e", parameters={"a": "c"}) == [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden.",
    ]


def test_csi_drivers() -> None:
    row = csi.CSI_DRIVER
    obj = made(row)
    assert obj["spec"] == {
        "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False, "requiresRepublish": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": False, "volumeLifecycleModes": ["Persistent"],
    }  # fmt: skip
    assert "generation" not in obj["metadata"]
    requests = [{"audience": "a", "expirationSeconds": 599}, {"audience": "a"}]
    assert problems(row, spec={"tokenRequests": requests, "nodeAllocatableUpdatePeriodSeconds": 9}) == [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: "a"',
        "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
    ]
    assert changes(row, obj, spec={**obj["spec"], "attachRequired": False}) == [
        "spec.attachedRequired: Invalid value: false: field is immutable"
    ]
    new = {**tree.copy(obj), "spec": {**obj["spec"], "podInfoOnMount": True}}
    row.strategy.prepare_for_update(new, obj, CTX)
    assert new["metadata"]["generation"] == 1


def test_csi_nodes() -> None:
    row = csi.CSI_NODE
    driver = {"name": "d", "nodeID": "n", "topologyKeys": None}
    assert problems(row, spec={"drivers": [driver, {"name": "d", "nodeID": "", "allocatable": {"count": -1}}]}) == [
        "spec.drivers[1].nodeID: Required value",
        "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
        'spec.drivers[1].name: Duplicate value: "d"',
    ]
    old = made(row, spec={"drivers": [driver]})
    assert changes(row, old, spec={"drivers": [{**driver, "topologyKeys": [], "allocatable": {"count": 1}}]}) == []
    assert changes(row, old, spec={"drivers": [{**driver, "nodeID": "m"}]}) == [
        'spec.drivers: Invalid value: {"Name":"d","NodeID":"m","TopologyKeys":null,"Allocatable":null}: '
        "field is immutable"
    ]


def test_storage_capacities() -> None:
    row = csi.CSI_STORAGE_CAPACITY
    parts = {"storageClassName": "s", "capacity": "1Gi"}
    assert problems(row, **parts) == []
    assert problems(row, **{**parts, "capacity": "-1"}) == [
        'capacity: Invalid value: "-1": must be greater than or equal to 0'
    ]
    old = made(row, **parts)
    assert changes(row, old, storageClassName="t") == ['storageClassName: Invalid value: "t": field is immutable']


@pytest.mark.parametrize(
    ("where", "texts"),
    [
        ({"persistentVolumeName": "v"}, []),
        ({}, ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
        (
            {"persistentVolumeName": "v", "inlineVolumeSpec": {}},
            ["spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
        ),
        (
            {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "csi": CSI}},
            ["spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes"],
        ),
    ],
)
def test_what_an_attachment_attaches(where: Object, texts: list[str]) -> None:
    spec = {"attacher": "d.example.com", "nodeName": "n", "source": where}
    assert problems(volumeattachments.RESOURCE, spec=spec) == texts


def test_an_attachment_is_fixed_and_its_status_is_not() -> None:
    row = volumeattachments.RESOURCE
    spec = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    old = made(row, spec=spec)
    assert old["status"] == {"attached": False}
    (found,) = changes(row, old, spec={**spec, "nodeName": "m"})
    assert found.startswith('spec: Invalid value: {"Attacher":"d.example.com"')
    assert changes(row, old, subresource="status", status={"attached": True}) == []
    error = {"errorCode": -1}
    assert changes(row, old, subresource="status", status={"attached": False, "attachError": error}) == [
        "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"
    ]


@pytest.mark.parametrize("on", [False, True])
def test_a_driver_prevents_no_scheduling_unless_it_says_so(on: bool) -> None:
    ctx = msgspec.structs.replace(CTX, features={"VolumeLimitScaling": on})
    name = "preventPodSchedulingIfMissing"
    driver: Object = {"metadata": {"name": "d", "uid": "u", "resourceVersion": "1"}}
    strategy = csi.CSI_DRIVER.strategy
    strategy.default(driver)
    strategy.prepare_for_create(driver, ctx)
    assert not strategy.validate(driver, ctx)
    assert driver["spec"].get(name) == (False if on else None)
    changed = tree.copy(driver)
    changed["spec"][name] = True
    strategy.prepare_for_update(changed, driver, ctx)
    assert not strategy.validate_update(changed, driver, ctx)
    assert changed["spec"].get(name) == (True if on else None)


DRIVER: Object = {"name": "d", "nodeID": "n"}


@pytest.mark.parametrize(
    ("drivers", "texts"),
    [
        ([{**DRIVER, "topologyKeys": ["a", "b"], "allocatable": {"count": 0}}], []),
        ([{**DRIVER, "name": "-"}], ['[0].name: Invalid value: "-": <subdomain>']),
        ([{**DRIVER, "nodeID": ""}], ["[0].nodeID: Required value"]),
        ([DRIVER, DRIVER], ['[1].name: Duplicate value: "d"']),
        ([{**DRIVER, "topologyKeys": ["a", "a"]}], ['[0]: Duplicate value: "a"']),
        (
            [{**DRIVER, "topologyKeys": [""]}],
            [
                "[0]: Required value",
                '[0]: Invalid value: "": name part must be non-empty',
                '[0]: Invalid value: "": <name part>',
            ],
        ),
        ([{**DRIVER, "topologyKeys": ["-"]}], ['[0]: Invalid value: "-": <name part>']),
    ],
)
def test_the_drivers_of_a_node(drivers: list[Object], texts: list[str]) -> None:
    assert short(problems(csi.CSI_NODE, spec={"drivers": drivers}), "spec.drivers") == texts


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, []),
        ({"fsGroupPolicy": "X"},
         ['.fsGroupPolicy: Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"']),
        ({"volumeLifecycleModes": ["X"]},
         ['.volumeLifecycleModes: Unsupported value: "X": supported values: "Persistent", "Ephemeral"']),
        ({"serviceAccountTokenInSecrets": True},
         [".serviceAccountTokenInSecrets: Invalid value: true: "
          "serviceAccountTokenInSecrets is set but no tokenRequests are specified"]),
        ({"tokenRequests": [{"audience": "a", "expirationSeconds": (1 << 32) + 1}]},
         [f".tokenRequests[0].expirationSeconds: Invalid value: {(1 << 32) + 1}: "
          "may not specify a duration larger than 2^32 seconds"]),
    ],
)  # fmt: skip
def test_the_spec_of_a_driver_when_it_is_made_and_changed(spec: Object, texts: list[str]) -> None:
    ctx = msgspec.structs.replace(CTX, features={"CSIServiceAccountTokenSecrets": True})
    assert short(problems(csi.CSI_DRIVER, ctx, spec=spec), "spec") == texts
    old = made(csi.CSI_DRIVER, ctx, spec={"serviceAccountTokenInSecrets": True} if "InSecrets" in str(spec) else {})
    assert short(changes(csi.CSI_DRIVER, old, spec={**old["spec"], **spec}), "spec")[: len(texts)] == texts


def test_a_capacity_names_its_class_and_selects_by_labels() -> None:
    row = csi.CSI_STORAGE_CAPACITY
    assert short(problems(row, storageClassName="A", nodeTopology={"matchLabels": {"a": "-"}})) == [
        'nodeTopology.matchLabels: Invalid value: "-": <label value>',
        'storageClassName: Invalid value: "A": <subdomain>',
    ]
    topology = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
    old = made(row, storageClassName="a", nodeTopology=topology)
    assert changes(row, old) == []
    assert short(changes(row, old, capacity="-1")) == [
        'capacity: Invalid value: "-1": must be greater than or equal to 0'
    ]


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"provisioner": ""}, ["provisioner: Required value"]),
        ({"provisioner": "-"}, ['provisioner: Invalid value: "-": <name part>']),
        ({"parameters": {"": "v"}}, ['parameters: Invalid value: "": field can not be empty.']),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": []}]}]},
         ["allowedTopologies[0].matchLabelExpressions[0].values: Required value"]),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": "-", "values": ["v"]}]}]},
         ['allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "-": <name part>']),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["v"]}] * 2}]},
         ['allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"']),
    ],
)  # fmt: skip
def test_what_a_class_may_not_be(parts: Object, texts: list[str]) -> None:
    assert short(problems(storageclasses.STORAGE_CLASS, **{"provisioner": "p", **parts})) == texts


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({}, []),
        ({"attacher": ""}, [".attacher: Required value"]),
        ({"nodeName": "A"}, ['.nodeName: Invalid value: "A": <subdomain>']),
        (
            {"source": {"persistentVolumeName": ""}},
            [
                ".source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
                '.source.persistentVolumeName: Invalid value: "": <subdomain>',
            ],
        ),
        ({"source": {"persistentVolumeName": "A"}}, ['.source.persistentVolumeName: Invalid value: "A": <subdomain>']),
    ],
)
def test_the_spec_of_an_attachment(spec: Object, texts: list[str]) -> None:
    given = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}, **spec}
    assert short(problems(volumeattachments.RESOURCE, spec=given), "spec") == texts


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        ({"attachError": {"message": "m" * 1024, "errorCode": 0}}, []),
        ({"attachmentMetadata": {"k": "v" * ((256 << 10) - 1)}}, []),
        ({"attachmentMetadata": {"k": "v" * (256 << 10)}},
         [".attachmentMetadata: Too long: may not be more than 262144 bytes"]),
        ({"attachError": {"message": "m" * 1025}}, [".attachError.message: Too long: may not be more than 262144 bytes"]),
        ({"detachError": {"errorCode": -1}},
         [".detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
    ],
)  # fmt: skip
def test_the_status_of_an_attachment(status: Object, texts: list[str]) -> None:
    old = made(
        volumeattachments.RESOURCE, spec={"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    )
    found = changes(volumeattachments.RESOURCE, old, subresource="status", status={"attached": False, **status})
    assert short(found, "status") == texts
