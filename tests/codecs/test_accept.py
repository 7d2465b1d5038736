"""Accept headers: clauses, their order, and which of them an endpoint can meet (upstream: goautoneg, negotiate.go)."""

from __future__ import annotations

import pytest

from kapi.codecs.accept import Convert, choose, parse_accept, route_accepts
from kapi.codecs.negotiation import (
    APPLY,
    APPLY_CBOR,
    MediaType,
    check_patch_route,
    check_route,
    error_media_type,
    input_media_type,
    output_media_type,
    plain_media_type,
)
from kapi.machinery import status

SUPPORTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
TABLE = ";as=Table;v=v1;g=meta.k8s.io"


class Asked:
    def __init__(
        self, accept: str, agent: str = "", no_protobuf: bool = False, cbor: bool = False, **query: str
    ) -> None:
        self.headers = {"accept": accept, "user-agent": agent}
        self.query = {name: [value] for name, value in query.items()}
        self.no_protobuf = no_protobuf
        self.cbor = cbor

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


PROTOBUF, METADATA = "application/vnd.kubernetes.protobuf", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("asked", "verb", "wanted"),
    [
        (Asked("application/json"), "get", MediaType()), (Asked("*/*"), "get", MediaType()), (Asked(""), "watch", MediaType()),
        (Asked("", pretty="1"), "get", MediaType(pretty=True, plain=False)), (Asked("*/*", pretty="1"), "watch", MediaType()),
        (Asked("application/yaml"), "get", MediaType(yaml=True, content_type=b"application/yaml", plain=False)),
        (Asked("application/yaml", pretty="1"), "list", MediaType(yaml=True, content_type=b"application/yaml", plain=False)),
        (Asked(f"application/json{TABLE}"), "list", MediaType(as_kind="Table", as_version="v1", plain=False)),
        (Asked(f"application/json{METADATA}".replace("=v1;", "=v1beta1;")), "get",
         MediaType(as_kind="PartialObjectMetadata", as_version="v1beta1", plain=False)),
        (Asked(f"application/yaml{TABLE}"), "list",
         MediaType(yaml=True, as_kind="Table", as_version="v1", content_type=b"application/yaml", plain=False)),
        (Asked(PROTOBUF), "get", MediaType(content_type=PROTOBUF.encode(), plain=False, protobuf=True)),
        (Asked(PROTOBUF), "watch", MediaType(content_type=f"{PROTOBUF};stream=watch".encode(), plain=False, protobuf=True)),
        (Asked(f"{PROTOBUF}{METADATA}", no_protobuf=True), "get", MediaType(
            as_kind="PartialObjectMetadata", as_version="v1", content_type=PROTOBUF.encode(), plain=False, protobuf=True)),
        (Asked("application/cbor", cbor=True), "get", MediaType(content_type=b"application/cbor", plain=False, cbor=True)),
        (Asked("application/cbor", cbor=True), "watch", MediaType(content_type=b"application/cbor-seq", plain=False, cbor=True)),
        (Asked(f"application/cbor{METADATA}", cbor=True), "get", MediaType(
            as_kind="PartialObjectMetadata", as_version="v1", content_type=b"application/cbor", plain=False, cbor=True)),
        (Asked("text/plain, application/json"), "log", MediaType()),
    ],
)  # fmt: skip
def test_the_form_of_an_answer(asked: Asked, verb: str, wanted: MediaType) -> None:
    assert output_media_type(asked, verb) == wanted
    assert wanted.binary is (b"cbor" in wanted.content_type or b"protobuf" in wanted.content_type)
    if not wanted.as_kind and verb == "get":
        assert plain_media_type(asked) == wanted
    long = Asked(f"{asked.headers['accept'] or '*/*'}{' ' * 600}", no_protobuf=asked.no_protobuf, cbor=asked.cbor)
    if "pretty" not in asked.query:
        assert output_media_type(long, verb) == wanted


KNOWN = f"application/json, application/yaml, {PROTOBUF}"
STREAMS = f"application/json;stream=watch, {PROTOBUF};stream=watch"
ROUTE, FORMS = "406: Not Acceptable\n\nAvailable representations: ", "only the following media types are accepted: "


@pytest.mark.parametrize(
    ("asked", "verb", "words"),
    [
        (Asked("text/html"), "get", f"{ROUTE}{KNOWN}"), (Asked("text/html"), "log", f"{ROUTE}text/plain, {KNOWN}"),
        (Asked("text/html"), "watch", f"{ROUTE}{KNOWN}, {STREAMS}"), (Asked("text/html"), "list", f"{ROUTE}{KNOWN}, {STREAMS}"),
        (Asked("text/html", cbor=True), "get", f"{ROUTE}{KNOWN}, application/cbor"),
        (Asked("text/html", cbor=True), "list", f"{ROUTE}{KNOWN}, application/cbor, {STREAMS}, application/cbor-seq"),
        (Asked("application/cbor"), "get", f"{ROUTE}{KNOWN}"),
        (Asked("text/plain"), "log", f"{FORMS}{KNOWN}"), (Asked("application/yaml"), "watch", f"{FORMS}{STREAMS}"),
        (Asked("application/yaml", cbor=True), "watch", f"{FORMS}{STREAMS}, application/cbor-seq"),
        (Asked("application/cbor-seq", cbor=True), "list", f"{FORMS}{KNOWN}, application/cbor"),
        (Asked("application/cbor-seq", cbor=True), "get", f"{ROUTE}{KNOWN}, application/cbor"),
        (Asked(f"{PROTOBUF}", no_protobuf=True), "get", f"{FORMS}{KNOWN}"),
        (Asked("application/json;as=Table;v=v2;g=meta.k8s.io"), "get", f"{FORMS}{KNOWN}"),
        (Asked("application/json;as=Table;v=v1;g=apps"), "get", f"{FORMS}{KNOWN}"),
        (Asked("application/json;as=Pod;v=v1;g=meta.k8s.io"), "get", f"{FORMS}{KNOWN}"),
    ],
)  # fmt: skip
def test_the_words_of_a_refusal(asked: Asked, verb: str, words: str) -> None:
    with pytest.raises(status.NotAcceptable) as raised:
        output_media_type(asked, verb)
    assert raised.value.status["message"] == words
    if words.startswith(ROUTE):
        with pytest.raises(status.NotAcceptable) as raised:
            check_route(asked, verb)
        assert raised.value.status["message"] == words
    else:
        check_route(Asked("application/json"), verb)


def test_a_resource_without_tables_has_none() -> None:
    with pytest.raises(status.NotAcceptable):
        output_media_type(Asked(f"application/json{TABLE}"), "list", tables=False)
    assert (
        output_media_type(Asked(f"application/json{METADATA}"), "list", tables=False).as_kind == "PartialObjectMetadata"
    )


STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
UNKNOWN = "the body of the request was in an unknown format - accepted media types include: "


@pytest.mark.parametrize(
    ("content_type", "types", "cbor", "found"),
    [
        (MERGE, (MERGE, STRATEGIC), False, MERGE), (f"{APPLY};x=y", (MERGE, APPLY), False, APPLY),
        (APPLY_CBOR, (MERGE,), True, APPLY_CBOR), (APPLY_CBOR, (MERGE,), False, f"{UNKNOWN}{MERGE}"),
        ("", (MERGE, APPLY), True, f"{UNKNOWN}{MERGE}, {APPLY}, {APPLY_CBOR}"),
        ("text/x", (MERGE, STRATEGIC), True, "415: Unsupported Media Type"),
        (f"text/x, {MERGE} ;a=b;c", (MERGE, STRATEGIC), False, f"{UNKNOWN}{MERGE}, {STRATEGIC}"),
        (f"text/x,{APPLY_CBOR}", (MERGE, STRATEGIC), True, f"{UNKNOWN}{MERGE}, {STRATEGIC}, {APPLY_CBOR}"),
    ],
)  # fmt: skip
def test_the_type_of_a_patch(content_type: str, types: tuple[str, ...], cbor: bool, found: str) -> None:
    asked = Asked("", cbor=cbor)
    asked.headers["content-type"] = content_type
    if found.startswith(("415", UNKNOWN)):
        with pytest.raises(status.UnsupportedMediaType) as raised:
            check_patch_route(asked, types)
        assert raised.value.status["message"] == found
        assert asked.cbor is (cbor and not found.startswith("415"))
    else:
        assert check_patch_route(asked, types) == found
