"""PersistentVolumes: sources that pods have, too, are checked and defaulted as there."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.feature_gates import resolve
from kapi.testing.memory_api import MemoryAPI, succeed


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


@pytest.mark.parametrize(("on", "code"), [(False, 422), (True, 200)])
def test_the_affinity_may_change_with_its_gate(on: bool, code: int) -> None:
    api = succeed(MemoryAPI.started())
    api.environment.features = resolve({"MutablePVNodeAffinity": on})

    def in_zone(zone: str) -> Any:
        expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}

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
