"""Custom resources have no protobuf form; their metadata and what is said of them have."""

from __future__ import annotations

from kapi.schema import protobuf
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.test_protobuf_answers import PROTOBUF, STATUS, ask, content_type, decoded
from tests.servers.apiextensions.definition_kit import FOOS, create, definition, install


def test_objects_are_answered_as_json_to_whom_takes_that_too(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    for path in (f"{FOOS}/f", FOOS, f"{FOOS}?watch=true"):
        assert ask(api, "GET", path).code == 406
        assert content_type(ask(api, "GET", path, accept=f"{PROTOBUF},application/json")) == "application/json"


def test_metadata_and_errors_are_answered_as_protobuf(api: MemoryAPI) -> None:
    install(api, definition())
    create(api, "f", {"size": 1})
    partial = ask(api, "GET", FOOS, accept=f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    envelope = protobuf.envelope(b"".join(partial.chunks))
    assert (content_type(partial), envelope.kind) == (PROTOBUF, "PartialObjectMetadataList")
    missing = decoded(ask(api, "GET", f"{FOOS}/none", accept=f"{PROTOBUF},application/json"), STATUS)
    assert missing["code"] == 404
