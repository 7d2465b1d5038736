"""ValidatingWebhookConfiguration (admissionregistration.k8s.io/v1)."""

from __future__ import annotations

from kapi.resources.admissionregistration.webhooks import TABLE, WebhookStrategy
from kapi.resources.definition import Resource

RESOURCE = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
    categories=("api-extensions",),
    storage_version_hash="B0wHjQmsGNk=",
    strategy=WebhookStrategy(mutating=False),
    table=TABLE,
)
