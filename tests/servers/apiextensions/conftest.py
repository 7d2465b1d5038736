from __future__ import annotations

import pytest

from kapi.admission.webhook.client import WebhookClient
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.resources.catalogue import BUILT_IN
from kapi.servers.apiextensions.serving import CustomResources
from kapi.testing.memory_api import MemoryAPI, succeed


@pytest.fixture
def api() -> MemoryAPI:
    """An API server in memory that serves custom resources."""
    api: MemoryAPI = succeed(MemoryAPI.started())
    serve_custom_resources(api)
    return api


def serve_custom_resources(api: MemoryAPI) -> None:
    client = WebhookClient(api.clock, ServiceResolver(None))
    custom = CustomResources(api.registry, api.table, api.registry.client, api.clock, BUILT_IN, client.post)
    succeed(custom.start())
