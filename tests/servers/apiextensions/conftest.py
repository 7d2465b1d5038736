from __future__ import annotations

import pytest

from kapi.admission.webhook.client import WebhookClient
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.machinery.gvk import GroupResource
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
    built_in = frozenset(GroupResource(row.group, row.plural) for row in BUILT_IN)
    client = WebhookClient(api.clock, ServiceResolver(None))
    custom = CustomResources(api.registry, api.table, api.registry.client, api.clock, built_in, client.post)
    succeed(custom.start())
