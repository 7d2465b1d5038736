"""What extension API servers are told (with the cases of upstream's ``cluster_authentication_trust_controller_test.go``)."""

from __future__ import annotations

import datetime
import functools
import json
from typing import Any
from unittest import mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kapi.controllers.clusterauthentication import (
    NAME,
    ClusterAuthenticationController,
    TrustedIdentities,
    joined_bundles,
    merged_data,
)
from kapi.machinery.status import RequestTooLarge
from kapi.testing.memory_api import MemoryAPI, succeed

NOW = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
MAPS = "/api/v1/namespaces/kube-system/configmaps"


@functools.cache
def authority(common: str, seconds: float = 86_400) -> str:
    """The certificate of a CA that expires this time after NOW."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    until = NOW + datetime.timedelta(seconds=seconds)
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(NOW - datetime.timedelta(days=9)).not_valid_after(until)
    )  # fmt: skip
    return builder.sign(key, None).public_bytes(Encoding.PEM).decode()


A, B = authority("a"), authority("b")
PROXY = TrustedIdentities(A, B, ["X-Remote-User"], (), ["X-Remote-Group"], ["X-Remote-Extra-"], ["proxy"])


def merged(data: Any, own: TrustedIdentities) -> dict[str, str]:
    return merged_data({"data": data}, own, NOW)


@pytest.mark.parametrize(
    ("bundles", "wanted"),
    [
        ((A + B, "noise\n" + A), A + B),
        (("noise " + A,), ""),
        ((A.replace("\n", "\r\n"),), A),
        ((A.replace("CERTIFICATE", "PUBLIC KEY"), B), B),
        (("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n", B), B),
        ((authority("gone", -301) + A, authority("late", -299)), A + authority("late", -299)),
        ((authority("gone", -301),), ""),
    ],
)
def test_bundles_are_joined_and_each_valid_certificate_comes_once(bundles: tuple[str, ...], wanted: str) -> None:
    assert joined_bundles(NOW, *bundles) == wanted


def test_nothing_trusted_nothing_said() -> None:
    assert merged({}, TrustedIdentities()) == {}


def test_client_ca_and_proxy() -> None:
    assert merged({}, PROXY) == {
        "client-ca-file": A,
        "requestheader-client-ca-file": B,
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": "[]",
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-allowed-names": '["proxy"]',
    }


def test_what_another_server_trusts_stays() -> None:
    data = merged({"client-ca-file": B, "requestheader-allowed-names": '["other"]', "junk": "x"}, PROXY)
    assert data["client-ca-file"] == B + A
    assert json.loads(data["requestheader-allowed-names"]) == ["other", "proxy"]
    assert "junk" not in data


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_broken_list_is_replaced(text: str) -> None:
    data = merged({"requestheader-allowed-names": text, "requestheader-client-ca-file": B}, PROXY)
    assert data["requestheader-allowed-names"] == '["proxy"]'


def controlled(own: TrustedIdentities) -> tuple[MemoryAPI, ClusterAuthenticationController]:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-system"}})
    controller = ClusterAuthenticationController(api.registry.client, api.clock, lambda: own, api.environment.clock)
    succeed(controller.start())
    api.clock.pump([0.1] * 10)
    return api, controller


def test_a_certificate_that_expires_goes() -> None:
    short = authority("short", 60)
    api, controller = controlled(TrustedIdentities(short + A))
    assert api.ask("GET", f"{MAPS}/{NAME}").json["data"] == {"client-ca-file": short + A}
    api.clock.pump([60.0] * 8)
    assert api.ask("GET", f"{MAPS}/{NAME}").json["data"] == {"client-ca-file": A}
    controller.stop()


def test_one_that_is_too_large_is_made_anew() -> None:
    api, controller = controlled(TrustedIdentities(A))
    before = api.ask("GET", f"{MAPS}/{NAME}").json["metadata"]["uid"]
    large = {"metadata": {"name": NAME}, "data": {"requestheader-client-ca-file": B, "x": "x"}}
    with mock.patch.object(controller._maps, "update", side_effect=RequestTooLarge("it is too large")):
        api.ask("PUT", f"{MAPS}/{NAME}", large)
        api.clock.pump([0.1] * 10)
    after = api.ask("GET", f"{MAPS}/{NAME}").json
    assert after["data"] == {"client-ca-file": A} and after["metadata"]["uid"] != before
    controller.stop()
