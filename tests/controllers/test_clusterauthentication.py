"""What extension API servers are told."""

from __future__ import annotations

import json

import pytest

from kapi.controllers.clusterauthentication import TrustedIdentities, joined_bundles, merged_data

A = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
B = "-----BEGIN CERTIFICATE-----\nQg==\n-----END CERTIFICATE-----\n"
PROXY = TrustedIdentities(A, B, ["X-Remote-User"], (), ["X-Remote-Group"], ["X-Remote-Extra-"], ["proxy"])


def test_bundles_are_joined_and_each_certificate_comes_once() -> None:
    assert joined_bundles(A + B, "noise\n" + A) == A + B


def test_nothing_trusted_nothing_said() -> None:
    assert merged_data({}, TrustedIdentities()) == {}


def test_client_ca_and_proxy() -> None:
    data = merged_data({}, PROXY)
    assert data["client-ca-file"] == A and data["requestheader-client-ca-file"] == B
    assert data["requestheader-username-headers"] == '["X-Remote-User"]'
    assert "requestheader-uid-headers" not in data


def test_what_another_server_trusts_stays() -> None:
    existing = {"data": {"client-ca-file": B, "requestheader-allowed-names": '["other"]', "junk": "x"}}
    data = merged_data(existing, PROXY)
    assert data["client-ca-file"] == B + A
    assert json.loads(data["requestheader-allowed-names"]) == ["other", "proxy"]
    assert "junk" not in data


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_broken_list_is_replaced(text: str) -> None:
    data = merged_data({"data": {"requestheader-allowed-names": text, "requestheader-client-ca-file": B}}, PROXY)
    assert data["requestheader-allowed-names"] == '["proxy"]'
