"""The use of legacy tokens leaves a label, once a day."""

from __future__ import annotations

import base64
from typing import Any
from unittest import mock

from twisted.logger import globalLogPublisher

from kapi.authentication.service_account.authenticator import LAST_USED
from kapi.authentication.service_account.usage import LegacyTokenUsage
from kapi.store.errors import StoreUnavailable
from kapi.testing.memory_api import MemoryAPI, succeed

DAY = 86_400


def started() -> tuple[MemoryAPI, LegacyTokenUsage]:
    api: MemoryAPI = succeed(MemoryAPI.started())
    return api, LegacyTokenUsage(api.registry.client, api.clock.seconds)


def test_a_use_is_labelled_once_a_day() -> None:
    api, usage = started()
    body = {"metadata": {"name": "t"}, "data": {"token": base64.b64encode(b"x").decode()}}
    secret: Any = api.ask("POST", "/api/v1/namespaces/x/secrets", body).json
    usage(secret)
    first = api.ask("GET", "/api/v1/namespaces/x/secrets/t").json
    assert first["metadata"]["labels"] == {LAST_USED: "2023-11-14"}
    usage(first)
    same = api.ask("GET", "/api/v1/namespaces/x/secrets/t").json
    assert same["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    api.clock.advance(2 * DAY)
    usage(same)
    later = api.ask("GET", "/api/v1/namespaces/x/secrets/t").json
    assert later["metadata"]["labels"] == {LAST_USED: "2023-11-16"}


def test_a_secret_that_went_away_disturbs_nobody() -> None:
    _, usage = started()
    usage({"metadata": {"name": "gone", "namespace": "x", "uid": "u"}})


def test_a_store_that_fails_is_one_line_of_the_log_and_tried_again() -> None:
    _, usage = started()
    lines: list[Any] = []
    globalLogPublisher.addObserver(lines.append)
    try:
        for _ in range(2):
            with mock.patch.object(usage._secrets, "patch", side_effect=StoreUnavailable("it is away")):
                usage({"metadata": {"name": "t", "namespace": "x", "uid": "u"}})
    finally:
        globalLogPublisher.removeObserver(lines.append)
    assert [str(line["log_failure"].value) for line in lines] == ["it is away"] * 2
