"""A create that the store refuses, for its charges or for its generated name, is tried eight times."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.store.errors import KeyExists, Outdated
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/ns/configmaps"


@pytest.mark.parametrize(
    ("error", "metadata", "refusals", "code"),
    [
        (Outdated, {"name": "a"}, 7, 201), (Outdated, {"name": "a"}, 8, 409), (KeyExists, {"generateName": "a-"}, 7, 201),
        (KeyExists, {"generateName": "a-"}, 8, 409), (KeyExists, {"name": "a"}, 1, 409),
        (KeyExists, {"name": "a", "generateName": "a-"}, 1, 409),
    ],
)  # fmt: skip
def test_how_often_it_is_tried(
    monkeypatch: pytest.MonkeyPatch, error: Any, metadata: dict[str, str], refusals: int, code: int
) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    create, tried = api.store.create, []

    def refuse(key: str, *of: Any, **named: Any) -> Any:
        tried.append(key)
        if len(tried) <= refusals:
            raise error(key) if error is Outdated else error(key, 5)
        return create(key, *of, **named)

    monkeypatch.setattr(api.store, "create", refuse)
    answer = api.ask("POST", MAPS, {"metadata": metadata})
    assert (answer.code, len(tried)) == (code, min(refusals + (code == 201), 8))
    assert (len(set(tried)) == 1) == ("name" in metadata)
    name = tried[-1].rpartition("/")[2]
    if code == 409 and error is KeyExists:
        text = f'configmaps "{name}" already exists'
        more = ", the server was not able to generate a unique name for the object" if "name" not in metadata else ""
        assert answer.json["message"] == text + more
    elif code == 201:
        assert answer.json["metadata"]["name"] == name
