"""Bootstrap tokens are Secrets of kube-system."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kapi.authentication.bootstrap_token import BootstrapTokenAuthenticator

TOKEN = "abcdef.0123456789abcdef"


class Secrets:
    def __init__(self, secret: dict[str, Any]) -> None:
        self.secret = secret

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.secret if (namespace, name) == ("kube-system", "bootstrap-token-abcdef") else None

    def list(self, namespace: str = "") -> list[dict[str, Any]]:
        return [self.secret]

    @property
    def changes(self) -> object:
        return None


def user(token: str = TOKEN, **changes: str) -> Any:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in changes.items() if key != "type"},
    }
    secret = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": changes.get("type", "bootstrap.kubernetes.io/token"),
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    answer = BootstrapTokenAuthenticator(Secrets(secret), ("api",), lambda: 1_700_000_000.0).authenticate_token(token)
    return None if answer is None else answer.user


def test_a_good_token() -> None:
    found = user(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a", expiration="2099-01-01T00:00:00Z")
    assert found.name == "system:bootstrap:abcdef"
    assert found.groups == ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "abcdef.fedcba9876543210"},
        {"token": "zzzzzz.0123456789abcdef"},
        {"token": "ABCDEF.0123456789abcdef"},
        {"token": "abcdef"},
        {"token_id": "zzzzzz"},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "2001-01-01T00:00:00Z"},
        {"expiration": "tomorrow"},
        {"expiration": "20990101T000000Z"},  # ISO 8601, but not RFC 3339
        {"expiration": "2099-01-01 00:00:00+00:00"},
        {"expiration": "2099-W01-1T00:00:00Z"},
        {"expiration": "2099-01-01T00:00:00"},
        {"auth_extra_groups": "system:masters"},
        {"auth_extra_groups": "system:bootstrappers:x:"},
        {"type": "Opaque"},
    ],
    ids=str,
)
def test_anything_out_of_order_is_no_token(changes: dict[str, str]) -> None:
    assert user(**changes) is None
