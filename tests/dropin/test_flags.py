"""Flags of kube-apiserver whose values it checks although nothing depends on them here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kapi.dropin.kube_apiserver import translate
from kapi.options.errors import ConfigError

ETCD = "--etcd-servers=http://127.0.0.1:2379"


@pytest.mark.parametrize("media", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", ""])
def test_forms_of_stored_objects(tmp_path: Path, media: str) -> None:
    flags, _ = translate([ETCD, f"--storage-media-type={media}"], tmp_path)
    assert "--redis-servers=redis://127.0.0.1:2379" in flags


def test_cbor_is_no_form_of_stored_objects_that_can_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        translate([ETCD, "--storage-media-type=application/cbor"], tmp_path)
    assert str(caught.value) == (
        '--storage-media-type "application/cbor" invalid, allowed values: '
        "application/json, application/vnd.kubernetes.protobuf, application/yaml"
    )
