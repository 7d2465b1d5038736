"""Custom resources have no protobuf form; their metadata and what is said of them have."""

from __future__ import annotations

from kapi.schema import protobuf, protobuf_writing
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.test_protobuf_answers import PROTOBUF, STATUS, ask, content_type, decoded
from tests.servers.apiextensions.definition_kit import FOOS, create, definition, install


def test_objects_are_answered_as_json_to_whom_takes_that_too(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    for path in (f"{FOOS}/f", FOOS, f"{FOOS}?watch=true"):
        assert ask(api, "GET", path).code == 406
        assert content_type(ask(api, "GET", path, accept=f"{PROTOBUF},application/json")) == "application/json"


def test_a_list_of_metadata_has_its_items_first_in_v1beta1(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    raw = {}
    for version in ("v1", "v1beta1"):
        accept = f"{PROTOBUF};as=PartialObjectMetadataList;v={version};g=meta.k8s.io"
        raw[version] = protobuf.envelope(b"".join(ask(api, "GET", FOOS, accept=accept).chunks)).raw
    head = protobuf_writing.list_head(api.ask("GET", FOOS).json["metadata"])
    item = raw["v1"].removeprefix(head)[1:]
    assert raw["v1"] == head + b"\x12" + item
    assert raw["v1beta1"] == b"\x0a" + item + b"\x12" + head[1:]


def test_a_custom_resource_is_no_list(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    answer = ask(api, "GET", f"{FOOS}/f", accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    assert (answer.code, answer.json["message"], "reason" in answer.json) == (500, "content is not a list", False)


def test_metadata_and_errors_are_answered_as_protobuf(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    partial = ask(api, "GET", FOOS, accept=f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    envelope = protobuf.envelope(b"".join(partial.chunks))
    assert (content_type(partial), envelope.kind) == (PROTOBUF, "PartialObjectMetadataList")
    missing = decoded(ask(api, "GET", f"{FOOS}/none", accept=f"{PROTOBUF},application/json"), STATUS)
    assert missing["code"] == 404
