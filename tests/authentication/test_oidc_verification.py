"""The registered claims of an ID token at their limits (upstream: go-oidc's ``IDTokenVerifier``), and claims kept elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import succeed

from kapi.authentication.configuration import load_authentication
from kapi.authentication.interface import AuthenticationError
from kapi.authentication.oidc.distributed import DistributedClaims
from kapi.authentication.oidc.verification import _check
from kapi.authorization.configuration import ConfigurationError
from kapi.testing.memory_api import succeed as result_of

NOW = 1_000_000.0
EARLY = "oidc: current time before the nbf (not before) time"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""), ({"exp": NOW}, ""), ({"exp": NOW - 1}, "oidc: token is expired"), ({"exp": None}, "oidc: token is expired"),
        ({"nbf": NOW + 300}, ""), ({"nbf": NOW + 301}, EARLY), ({"nbf": 0}, ""),
        ({"aud": "us"}, ""), ({"aud": ["them", "us"]}, ""),
        ({"aud": ["them"]}, "oidc: expected audience in the token is missing"),
        ({"aud": []}, "oidc: expected audience in the token is missing"),
        ({"aud": None}, "oidc: expected audience in the token is missing"),
        ({"iss": "https://other"}, "id token issued by a different provider"),
    ],
)  # fmt: skip
def test_registered_claims(changes: dict[str, Any], why: str) -> None:
    claims = {"iss": "https://issuer", "aud": ["us"], "exp": NOW + 60, **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    if not why:
        _check(claims, "https://issuer", ("us", "also"), NOW)
    else:
        with pytest.raises(AuthenticationError) as caught:
            _check(claims, "https://issuer", ("us", "also"), NOW)
        assert str(caught.value) == f"oidc: verify token: {why}"


@pytest.mark.parametrize(("code", "valid"), [(199, False), (200, True), (226, True), (227, False), (302, False)])
def test_codes_of_a_source_of_claims(code: int, valid: bool) -> None:
    asked: list[Any] = []

    def request(*of: Any, headers: Any) -> Any:
        asked.append((of, headers))
        return succeed(SimpleNamespace(code=code, body=b" a.b.c \n"))

    client: Any = SimpleNamespace(request=request)
    for token in ("secret", "", None, 1):
        fetching = DistributedClaims("groups", client, (), (), lambda: NOW, lambda: 0.0)._fetch("https://claims", token)
        if valid:
            assert result_of(fetching) == "a.b.c"
        else:
            with pytest.raises(AuthenticationError, match=f"could not expand distributed claims: answered {code}$"):
                result_of(fetching)
        authorization = {"Authorization": "Bearer secret"} if token == "secret" else {}
        assert asked.pop() == (("GET", "https://claims"), {"Accept": "application/jwt", **authorization})


def test_how_many_issuers_there_may_be() -> None:
    def load(count: int) -> int:
        entries = ", ".join(
            f"{{issuer: {{url: 'https://i{number}', audiences: [a]}}, claimMappings: {{username: {{claim: sub, prefix: ''}}}}}}"
            for number in range(count)
        )
        head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
        return len(load_authentication(f"{head}jwt: [{entries}]".encode()).entries)

    assert load(64) == 64
    with pytest.raises(ConfigurationError, match="^jwt: Too many: 65: must have at most 64 items$"):
        load(65)
