"""Accept headers: clauses, their order, and which of them an endpoint can meet (upstream: goautoneg, negotiate.go)."""

from __future__ import annotations

import pytest

from kapi.codecs.accept import Convert, choose, parse_accept, route_accepts
from kapi.codecs.negotiation import MediaType, error_media_type, input_media_type, output_media_type
from kapi.machinery import status

SUPPORTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
TABLE = ";as=Table;v=v1;g=meta.k8s.io"


class Asked:
    def __init__(self, accept: str, agent: str = "", no_protobuf: bool = False, **query: str) -> None:
        self.headers = {"accept": accept, "user-agent": agent}
        self.query = {name: [value] for name, value in query.items()}
        self.no_protobuf = no_protobuf
        self.cbor = False

    def header(self, name: str, /) -> str | None:
        return self.headers.get(name)


def names(header: str) -> list[str]:
    return [f"{clause.type}/{clause.subtype}" for clause in parse_accept(header)]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("a/b,c/d", ["a/b", "c/d"]),
        ("a/b;q=0.5,c/d", ["c/d", "a/b"]),
        ("a/b;q=x,c/d;q=0.1", ["c/d", "a/b"]),  # an unreadable quality is none
        ("a/b;q= 0.9,c/d;q=0.1", ["c/d", "a/b"]),
        ("*/*,a/*,a/b", ["a/b", "a/*", "*/*"]),
        ("*/*;q=1,a/b;q=0.1", ["a/b", "*/*"]),  # a named type that stands behind overtakes
        ("*,a/b", ["a/b", "*/*"]),
        ("a,b/,/c,d/e/f,g/h/", ["/c", "g/h"]),  # what is no media range is left out
        (" a / b ; q=1 , c/d", ["a/b", "c/d"]),
    ],
)
def test_clauses_are_tried_in_this_order(header: str, expected: list[str]) -> None:
    assert names(header) == expected


def test_parameters_without_a_value_or_with_two_count_for_nothing() -> None:
    (clause,) = parse_accept("a/b;x;y=;z=1=2;v = v1 ;as=T")
    assert clause.parameters == {"v": "v1", "as": "T"}


def test_long_headers_are_sorted_too() -> None:
    assert names(",".join(["*/*", "a/b;q=0.1"] + ["c/d"] * 20))[:20] == ["c/d"] * 20


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("application/json;stream=watch", "application/json"),
        ("application/json;stream=x", None),
        ("application/yaml;stream=watch", None),
        ("application/json;sv=v1", "application/json"),
        ("application/json;sv=v2", None),
        ("application/json;export=1;unknown=x", "application/json"),
        ("application/*;stream=watch", "application/json"),
        ("application/json;v=v1", None),  # any of as, g and v asks for something else
        ("application/json;g=meta.k8s.io,application/yaml", "application/yaml"),
        ("", "application/json"),
        ("*", "application/json"),
        ("text/html", None),
    ],
)
def test_a_clause_counts_when_its_parameters_can_be_met(header: str, media: str | None) -> None:
    chosen = choose(header, SUPPORTED, lambda media, convert: convert is None, "v1")
    assert (chosen.media if chosen else None) == media


def test_a_range_takes_the_first_type_that_can_be_made() -> None:
    chosen = choose(f"*/*{TABLE}", SUPPORTED, lambda media, convert: "protobuf" in media)
    assert chosen is not None
    assert (chosen.media, chosen.convert) == (SUPPORTED[2], Convert("meta.k8s.io", "v1", "Table"))


def test_routes_know_whole_names_only() -> None:
    assert route_accepts("", SUPPORTED) and route_accepts("text/html, */*;q=0", SUPPORTED)
    assert route_accepts("application/yaml ;x=y", SUPPORTED)
    assert not route_accepts("application/*", SUPPORTED) and not route_accepts("*", SUPPORTED)


@pytest.mark.parametrize(
    ("accept", "verb", "expected"),
    [
        ("application/yaml,application/json", "get", "application/yaml"),
        ("application/yaml;q=0.1,application/json", "watch", "application/json"),
        ("application/vnd.kubernetes.protobuf", "watch", "application/vnd.kubernetes.protobuf;stream=watch"),
        ("application/yaml;stream=watch,application/json", "watch", "application/json"),
        (f"application/vnd.kubernetes.protobuf{TABLE},application/yaml{TABLE}", "get", "application/yaml"),
    ],
)
def test_objects_are_answered_in(accept: str, verb: str, expected: str) -> None:
    assert output_media_type(Asked(accept), verb).content_type.decode() == expected


@pytest.mark.parametrize(
    ("accept", "verb", "words"),
    [
        (
            "application/*",
            "get",
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
        ),
        ("application/json;v=v1", "get", "only the following media types are accepted: application/json, application/"),
        # YAML is chosen, and only then found to have no stream
        (
            "application/yaml,application/json",
            "watch",
            "only the following media types are accepted: application/json;s",
        ),
        ("application/json;stream=x", "watch", "only the following media types are accepted: application/json, appli"),
    ],
)
def test_what_cannot_be_met_is_refused(accept: str, verb: str, words: str) -> None:
    with pytest.raises(status.NotAcceptable) as raised:
        output_media_type(Asked(accept), verb)
    assert raised.value.status["message"].startswith(words)


def test_custom_resources_have_no_route_that_refuses() -> None:
    assert output_media_type(Asked("application/*", no_protobuf=True), "get").content_type == b"application/json"
    with pytest.raises(status.NotAcceptable) as raised:
        output_media_type(Asked("application/xml", no_protobuf=True), "get")
    assert raised.value.status["message"].startswith("only the following media types are accepted: application/json, ")


@pytest.mark.parametrize(
    ("asked", "pretty"),
    [
        (Asked("application/json;pretty=1"), True),
        (Asked("application/json;pretty=true"), False),
        (Asked("application/json", pretty="true"), True),
        (Asked("application/json", pretty="yes"), False),
        (Asked("application/json", "curl/8", pretty="0"), False),
        (Asked("application/json", "curl/8", pretty=""), True),
        (Asked("*/*", "Wget"), True),
        (Asked("application/json", "kubectl/curl"), False),
    ],
)
def test_json_is_indented_for_who_asks_or_reads_it(asked: Asked, pretty: bool) -> None:
    assert output_media_type(asked, "get").pretty is pretty
    assert error_media_type(asked).pretty is pretty


def test_an_error_is_indented_json_when_something_else_than_the_error_is_asked_for() -> None:
    assert error_media_type(Asked(f"application/yaml{TABLE}")) == MediaType(pretty=True, plain=False)
    assert error_media_type(Asked(f"application/yaml{TABLE},application/yaml")).yaml
    assert error_media_type(Asked("text/html")) == MediaType(pretty=True, plain=False)


@pytest.mark.parametrize(
    ("given", "media"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("Application/YAML", "application/yaml"),
        ("application/json;", "application/json"),
        ('application/json ; charset=utf-8; x="a;b"', "application/json"),
        ("application/json;a=1;A=1", "application/json"),
        ("application/json; charset", ""),
        ("application/json;;a=1", ""),
        ("application/json;a=1;a=2", ""),
        ("application/json, application/yaml", ""),
        ("json", ""),
        (" ;a=b", ""),
    ],
)
def test_a_content_type_with_malformed_parameters_is_unknown(given: str | None, media: str) -> None:
    asked = Asked("")
    if given is not None:
        asked.headers["content-type"] = given
    if media:
        assert input_media_type(asked) == media
    else:
        with pytest.raises(status.UnsupportedMediaType):
            input_media_type(asked)
