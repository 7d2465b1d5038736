"""Tokens of a file, and for whom they are valid (upstream: ``tokenfile_test.go``)."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.authentication.build import AuthenticationSettings, build_authentication
from kapi.authentication.static_tokens import StaticTokenAuthenticator, for_any_audience, parse_token_file
from kapi.request.user import UserInfo

ALICE = UserInfo("alice", uid="u1")


@pytest.mark.parametrize(
    ("row", "user"),
    [
        ("t,alice,u1", ALICE), ("t,alice,u1,", ALICE), ("t,alice,u1,dev", UserInfo("alice", uid="u1", groups=("dev",))),
        ('t,alice,u1,"dev,qa",more', UserInfo("alice", uid="u1", groups=("dev", "qa"))), ("\nt,alice,u1\n\n", ALICE),
        ("t,bob,u2\nt,alice,u1", ALICE),
    ],
)  # fmt: skip
def test_a_row_is_a_user(row: str, user: UserInfo) -> None:
    assert parse_token_file(row) == {"t": user}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t,alice,u1\na,b", "token file must have at least 3 columns (token, user name, user uid), found 2 in row 2"),
        ("t", "token file must have at least 3 columns (token, user name, user uid), found 1 in row 1"),
        ("t,alice,u1\n,b,c", "empty token has been found in token file, record number 2"),
    ],
)
def test_a_row_that_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_token_file(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("api", "asked", "valid"),
    [
        ((), (), ()), (("api",), (), ("api",)), (("api", "b"), ("b", "c"), ("b",)), (("api",), ("c",), None), ((), ("c",), ()),
    ],
)  # fmt: skip
def test_audiences(api: tuple[str, ...], asked: tuple[str, ...], valid: tuple[str, ...] | None) -> None:
    tokens = StaticTokenAuthenticator({"t": ALICE}, api)
    assert tokens.authenticate_token("other", asked) is None
    for found in (tokens.authenticate_token("t", asked), for_any_audience(ALICE, api, asked)):
        assert (None if found is None else found.audiences) == valid
        assert found is None or (found.user, found.expires) == (ALICE, 0.0)


@pytest.mark.parametrize(
    ("issuers", "api", "wanted"),
    [((), (), ()), (("https://i",), (), ("https://i",)), (("https://i",), ("api",), ("api",))],
)
def test_tokens_are_for_the_issuers_unless_other_audiences_are_named(issuers: Any, api: Any, wanted: Any) -> None:
    built = build_authentication(AuthenticationSettings(static_tokens={"t": ALICE}, issuers=issuers, api_audiences=api))
    found: Any = built.tokens.authenticate_token("t", ())
    assert (found.user, found.audiences) == (ALICE, wanted)
