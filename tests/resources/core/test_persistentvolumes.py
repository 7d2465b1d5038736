"""PersistentVolumes: sources that pods have, too, are checked and defaulted as there."""

from __future__ import annotations

from typing import Any

import pytest

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
