"""What becomes of an error that reaches an endpoint's edge, and who is refused."""

from __future__ import annotations

import pytest

from kapi.authorization.forbidden import forbidden_error, refused, require_masters
from kapi.authorization.interface import Attributes
from kapi.endpoints.errors import internal_error, to_status
from kapi.machinery import status
from kapi.request.user import SYSTEM_MASTERS, UserInfo
from kapi.store.errors import StoreUnavailable
from tests.filters.requests import request


def test_an_error_keeps_its_text_only_if_it_is_for_clients() -> None:
    gone = status.bad_request("why")
    assert to_status(gone) is gone
    away = to_status(StoreUnavailable("it is away"))
    assert away.code == 503 and "it is away" in away.message
    fault = to_status(ValueError("secret"))
    assert fault.code == 500 and "secret" not in fault.message
    assert fault.message.endswith("the server met an unexpected error; see its log under the audit id")


def test_a_filter_that_fails_says_so_in_plain_text_without_markup() -> None:
    response = internal_error(request("/<b>"), 'why & "how"')
    assert (response.status, response.content_type) == (500, b"text/plain; charset=utf-8")
    assert response.body == b'Internal Server Error: "/&lt;b&gt;": why &amp; "how"\n'
    assert response.headers == ((b"x-content-type-options", b"nosniff"),)


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        (None, False),
        (UserInfo("a"), False),
        (UserInfo("a", groups=("g",)), False),
        (UserInfo("a", groups=("g", SYSTEM_MASTERS)), True),
    ],
)
def test_some_endpoints_are_for_masters(user: UserInfo | None, allowed: bool) -> None:
    if allowed:
        require_masters(user, "why")
    else:
        with pytest.raises(status.Forbidden, match="^why$"):
            require_masters(user, "why")


def test_a_refusal_names_what_was_asked_for() -> None:
    user = UserInfo("<a>")
    for attributes, text in (
        (Attributes(user, "get", resource="pods", subresource="log", namespace="n", name="p"),
         'pods "p" is forbidden: User "&lt;a&gt;" cannot get resource "pods/log" in API group "" in the namespace "n"'),
        (Attributes(user, "list", group="apps", resource="deployments"),
         'deployments.apps is forbidden: User "&lt;a&gt;" cannot list resource "deployments" in API group "apps" at the '
         "cluster scope"),
        (Attributes(user, "get", is_resource=False, path="/x"), 'forbidden: User "&lt;a&gt;" cannot get path "/x"'),
    ):  # fmt: skip
        assert forbidden_error(attributes).message == text
        error = refused(attributes, "no <rule>")
        assert error.message == f"{text}: no <rule>"
        assert error.headers == (("X-Content-Type-Options", "nosniff"),)
