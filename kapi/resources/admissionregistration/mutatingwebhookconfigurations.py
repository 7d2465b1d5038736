"""MutatingWebhookConfiguration (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.webhooks import TABLE, WebhookStrategy
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="Sqi0GUgDaX0=",
    strategy=WebhookStrategy(mutating=True),
    table=TABLE,
)
