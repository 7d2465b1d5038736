"""The use of legacy tokens leaves a label, once a day."""

from __future__ import annotations

import base64
from typing import Any
from unittest import mock

import pytest
from twisted.internet.defer import succeed as succeeded
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


@pytest.mark.parametrize(
    ("labels", "written"),
    [
        (None, True), ({}, True), ({"other": "2023-11-14"}, True), ({LAST_USED: "2023-11-14"}, False),
        ({LAST_USED: "2023-11-13"}, True), ({LAST_USED: "2023-11-15"}, False), ({LAST_USED: "2023-11-16"}, True),
    ],
)  # fmt: skip
def test_a_label_of_today_or_by_a_clock_that_is_ahead_of_tomorrow_is_left(labels: Any, written: bool) -> None:
    _, usage = started()
    metadata: dict[str, Any] = {"name": "t", "namespace": "x", "uid": "u"}
    if labels is not None:
        metadata["labels"] = labels
    with mock.patch.object(usage._secrets, "patch") as patch:
        patch.return_value = succeeded(None)
        usage({"metadata": metadata})
    wanted = mock.call("t", {"metadata": {"uid": "u", "labels": {LAST_USED: "2023-11-14"}}}, "x")
    assert patch.call_args_list == ([wanted] if written else [])


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
