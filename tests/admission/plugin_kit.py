"""Admission plugins, made and asked."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import Attributes, Plugin
from kapi.authorization.interface import Attributes as Question
from kapi.authorization.interface import Decision, Verdict
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.fakes import FakeClient, finish


def admit(plugin: Plugin, request: Attributes) -> Attributes:
    finish(plugin.admit(request))
    finish(plugin.validate(request))
    return request


def refusal(plugin: Plugin, request: Attributes) -> str:
    with pytest.raises(StatusError) as caught:
        admit(plugin, request)
    return str(caught.value.message)


class Rules:
    """Allows (verb, resource/subresource) pairs."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = set(allowed)

    def authorize(self, asked: Question) -> Verdict:
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        return Verdict(Decision.ALLOW if (asked.verb, resource) in self.allowed else Decision.NO_OPINION)


def namespace(name: str = "n", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "status": {"phase": "Active"}}


def cluster(*namespaces: Object) -> FakeClient:
    client = FakeClient()
    client.put("", "namespaces", *(namespaces or (namespace(),)))
    return client
