"""What a request line asks for."""

from __future__ import annotations

import pytest

from kapi.request.info import RequestInfo
from kapi.request.parse import NoResource, parse_query, parse_request_info, split_uri
from kapi.request.target import origin_form


def info(uri: str, method: str = "GET") -> RequestInfo:
    return parse_request_info(method, *split_uri(uri.encode()))


@pytest.mark.parametrize(
    ("method", "uri", "expected"),
    [
        ("GET", "/api/v1/namespaces/x/pods/p", "get ''/v1 x pods/p"),
        ("HEAD", "/api/v1/namespaces/x/pods/p", "get ''/v1 x pods/p"),
        ("GET", "/api/v1/namespaces/x/pods", "list ''/v1 x pods/"),
        ("GET", "/api/v1/namespaces/x/pods?watch", "watch ''/v1 x pods/"),
        ("GET", "/api/v1/namespaces/x/pods?watch=0", "list ''/v1 x pods/"),
        ("GET", "/api/v1/namespaces/x/pods?watch=FALSE", "list ''/v1 x pods/"),
        ("GET", "/api/v1/namespaces/x/pods/p?watch=1", "get ''/v1 x pods/p"),
        ("DELETE", "/api/v1/namespaces/x/pods", "deletecollection ''/v1 x pods/"),
        ("DELETE", "/api/v1/namespaces/x/pods/p", "delete ''/v1 x pods/p"),
        ("POST", "/api/v1/namespaces/x/pods/p/eviction", "create ''/v1 x pods/p/eviction"),
        ("PATCH", "/apis/apps/v1/namespaces/x/deployments/d/scale", "patch 'apps'/v1 x deployments/d/scale"),
        ("GET", "/apis/apps/v1/deployments", "list 'apps'/v1  deployments/"),
        ("GET", "/api/v1/namespaces", "list ''/v1  namespaces/"),
        ("GET", "/api/v1/namespaces/x", "get ''/v1 x namespaces/x"),
        ("PUT", "/api/v1/namespaces/x/finalize", "update ''/v1 x namespaces/x/finalize"),
        ("PUT", "/api/v1/namespaces/x/status", "update ''/v1 x namespaces/x/status"),
        ("GET", "/api/v1/watch/namespaces/x/pods", "watch ''/v1 x pods/"),
        ("GET", "/api/v1/watch/namespaces/x/pods/p", "watch ''/v1 x pods/p"),
        ("GET", "/api/v1/namespaces/x/pods/http:p:80/proxy/a/b", "get ''/v1 x pods/http:p:80/proxy"),
        ("OPTIONS", "/api/v1/namespaces/x/pods", " ''/v1 x pods/"),
        ("GET", "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dp", "list ''/v1 x pods/p"),
    ],
)
def test_resource_requests(method: str, uri: str, expected: str) -> None:
    found = info(uri, method)
    text = f"{found.verb} '{found.group}'/{found.version} {found.namespace} {found.resource}/{found.name}"
    if found.subresource:
        text += f"/{found.subresource}"
    assert found.is_resource
    assert text == expected


@pytest.mark.parametrize(
    "uri", ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/version/", "/x/y/z"]
)
def test_other_paths_are_no_resource_requests(uri: str) -> None:
    found = info(uri, "POST")
    assert not found.is_resource
    assert found.verb == "post"
    assert found.path == uri


def test_an_encoded_slash_is_a_slash_for_authorization_too() -> None:
    """CVE-2022-3162: what is authorized is what is served, whichever way the path is written."""
    found = info("/api/v1/namespaces/x%2Fsecrets/pods")
    assert (found.namespace, found.resource, found.name) == ("x", "secrets", "pods")
    assert info("/api/v1/namespaces/x/pods/a%2fb").subresource == "b"


def test_dots_are_names_and_lead_nowhere() -> None:
    found = info("/api/v1/namespaces/x/pods/..")
    assert (found.namespace, found.resource, found.name) == ("x", "pods", "..")


def test_an_encoded_percent_sign_is_decoded_once() -> None:
    assert info("/api/v1/namespaces/x/pods/a%252Fb").name == "a%2Fb"


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(ValueError):
        split_uri(b"/api/v1/pods/%zz")


def test_a_name_selected_by_field_counts_only_when_every_option_is_readable() -> None:
    assert info("/api/v1/pods?fieldSelector=metadata.name=p&limit=x").name == ""
    assert info("/api/v1/pods?fieldSelector=metadata.name=p&limit=5").name == "p"
    assert info("/api/v1/pods?fieldSelector=metadata.name!=p").name == ""
    assert info("/api/v1/pods?fieldSelector=metadata.name=a/b").name == ""


def test_selectors_are_known_to_authorization_of_collections_only() -> None:
    listing = info("/api/v1/pods?fieldSelector=spec.nodeName=n&labelSelector=a=b")
    assert (listing.field_selector, listing.label_selector) == ("spec.nodeName=n", "a=b")
    assert info("/api/v1/namespaces/x/pods/p?fieldSelector=spec.nodeName=n").field_selector == ""
    assert info("/api/v1/watch/pods?fieldSelector=spec.nodeName=n").field_selector == ""


def test_a_watch_path_that_names_nothing_is_refused() -> None:
    with pytest.raises(NoResource):
        info("/apis/apps/v1/watch")


def test_queries_keep_order_and_drop_what_is_broken() -> None:
    assert parse_query(b"a=1&a=2&b=x+y&c;d=1&e=%zz&f") == {"a": ["1", "2"], "b": ["x y"], "f": [""]}


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (b"/api/v1/pods?x=1", (b"/api/v1/pods?x=1", b"")),
        (b"https://host:6443/api/v1/pods?x=1", (b"/api/v1/pods?x=1", b"host:6443")),
        (b"HTTP://host", (b"/", b"host")),
        (b"http://host?x=1", (b"/?x=1", b"host")),
        (b"//host/api", (b"//host/api", b"")),
        (b"/%41/\xc3\xa9", (b"/%41/%C3%A9", b"")),
        (b"*", None),
        (b"", None),
        (b"api/v1", None),
        (b"host:443", None),
        (b"https:///api", None),
        (b"ftp://host/api", None),
        *((b"/a" + bytes([code]) + b"b", None) for code in (*range(33), 127)),
    ],
)
def test_targets_have_one_form(target: bytes, wanted: object) -> None:
    assert origin_form(b"GET", target) == wanted


def test_options_may_ask_for_the_server_itself() -> None:
    assert origin_form(b"OPTIONS", b"*") == (b"*", b"")


def test_what_is_no_utf8_is_replaced_so_that_it_can_be_told() -> None:
    found = info("/api/v1/namespaces/%ff/pods/%c3%a9?fieldSelector=%fe")
    assert (found.namespace, found.name) == ("\ufffd", "é")
    found.namespace.encode()
