"""/statusz and /flagz: as text, and as objects for who asks."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from twisted.internet.task import Clock

from kapi.codecs.cbor_reading import loads
from kapi.machinery.lifecycles import RELEASE
from kapi.machinery.status import NotAcceptable
from kapi.observability.zpages import install_flagz, install_statusz
from kapi.request.context import RequestContext
from kapi.request.info import RequestInfo
from kapi.request.response import Response
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.site import Site
from kapi.testing.http import MemoryRequest


@pytest.fixture
def server() -> GenericServer:
    made = GenericServer("test", NotFound())
    now = iter([1_700_000_000.0, *[1_700_003_725.5] * 10])
    for path in ("/healthz", "/healthz/ping", "/livez/ping", "/openapi/v2"):
        made.app.route(path)(lambda ctx: None)
    install_statusz(made, RELEASE, lambda: next(now))
    install_flagz(made, {"v": "2", "advertise-address": "192.0.2.1"})
    return made


def ask(server: GenericServer, path: str, accept: str = "") -> tuple[Response, RequestContext]:
    ctx = RequestContext(MemoryRequest("GET", path, {"Accept": accept} if accept else {}), "GET", path, {})
    ctx.info = RequestInfo(False, path, "get")
    answer: Any = Site(server, Clock()).answer(ctx)
    return answer, ctx


def structured(kind: str, version: str = "v1beta1", media: str = "application/json") -> str:
    return f"{media};v={version};g=config.k8s.io;as={kind}"


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", f"{structured('Other')}, text/plain"])
def test_text_is_for_people(server: GenericServer, accept: str) -> None:
    answer, _ = ask(server, "/statusz", accept)
    assert isinstance(answer.body, bytes)
    lines = answer.body.decode().splitlines()
    assert lines[1] == "apiserver statusz" and lines[2].startswith("Warning: This endpoint is not meant")
    assert "Started: Tue Nov 14 22:13:20 UTC 2023" in lines and "Up: 1 hr 02 min 05 sec" in lines
    assert lines[-1] == "Paths: /flagz /healthz /livez /statusz", "each with what is below it"
    answer, _ = ask(server, "/flagz", accept)
    assert isinstance(answer.body, bytes)
    assert answer.body.decode().endswith("\nadvertise-address=192.0.2.1\nv=2\n")


def test_objects_are_for_programs(server: GenericServer) -> None:
    answer, ctx = ask(server, "/statusz", structured("Statusz"))
    assert isinstance(answer.body, bytes)
    found = orjson.loads(answer.body)
    assert (found["kind"], found["apiVersion"]) == ("Statusz", "config.k8s.io/v1beta1")
    assert (found["startTime"], found["uptimeSeconds"]) == ("2023-11-14T22:13:20Z", 3725)
    assert found["paths"] == ["/flagz", "/healthz", "/livez", "/statusz"] and not ctx.warnings
    answer, ctx = ask(server, "/flagz", structured("Flagz", "v1alpha1", "application/yaml"))
    assert isinstance(answer.body, bytes)
    tree = yaml.safe_load(answer.body)
    assert tree["flags"] == {"v": "2", "advertise-address": "192.0.2.1"}
    assert ctx.warnings == ["This version of the flagz endpoint is deprecated. Please use a newer version."]


@pytest.mark.parametrize("accept", ["application/json", structured("Statusz", "v9"), "image/png"])
def test_nothing_else_is_there(server: GenericServer, accept: str) -> None:
    with pytest.raises(NotAcceptable):
        ask(server, "/statusz", accept)


def test_cbor_comes_with_its_gate(server: GenericServer) -> None:
    accept = structured("Flagz", media="application/cbor")
    known = "only the following media types are accepted: application/json, application/yaml, text/plain"
    with pytest.raises(NotAcceptable, match=f"{known}$"):
        ask(server, "/flagz", accept)
    made = GenericServer("kube-apiserver", NotFound())
    install_flagz(made, {"v": "2"}, cbor=True)
    answer, _ = ask(made, "/flagz", accept)
    assert answer.content_type == b"application/cbor" and isinstance(answer.body, bytes)
    assert loads(answer.body)["flags"] == {"v": "2"}
    with pytest.raises(NotAcceptable, match=f"{known}, application/cbor$"):
        ask(made, "/flagz", "application/cbor")
