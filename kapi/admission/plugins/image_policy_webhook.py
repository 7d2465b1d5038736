"""ImagePolicyWebhook: another server allows or refuses the images of pods (upstream: ``imagepolicy``)."""

from __future__ import annotations

from collections.abc import Awaitable

import orjson

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.admission.pods import is_pod
from kapi.client.kubeconfig import load_kubeconfig
from kapi.client.review import ReviewClient, ReviewError
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import duration_text
from kapi.machinery.memo import ExpiringCache
from kapi.machinery.tree import Object, Tree
from kapi.wire.egress import CONTROL_PLANE

_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
_OF_INTEREST = ".image-policy.k8s.io/"
_CACHE_SIZE = 1024
_TIMEOUT_SECONDS = 30.0
_MAX_TTL_SECONDS = 1800.0

_REVIEW: Object = {"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "metadata": {}}


class ImagePolicyWebhook(Plugin):
    operations = frozenset({CREATE, UPDATE})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        from kapi.client.endpoint_client import EndpointClient  # imported only when it is used

        given = (configuration or {}).get("imagePolicy")
        if not isinstance(given, dict):
            raise ValueError("a configuration with imagePolicy is needed")
        backoff = _seconds(given, "retryBackoff", 0.001, 0.5, 1e-9, 300.0)
        self._allow_ttl = _seconds(given, "allowTTL", 1.0, 300.0, 1.0, _MAX_TTL_SECONDS)
        self._deny_ttl = _seconds(given, "denyTTL", 1.0, 30.0, 1.0, _MAX_TTL_SECONDS)
        endpoint = load_kubeconfig(given.get("kubeConfigFile") or "")
        assert initializer.reactor is not None
        client = EndpointClient(
            initializer.reactor, endpoint, _TIMEOUT_SECONDS, initializer.egress.proxy(CONTROL_PLANE)
        )
        self._reviews = ReviewClient(initializer.reactor, client, "ImageReview", "image policy webhook", backoff)
        self._default_allow = bool(given.get("defaultAllow", False))
        self._known: ExpiringCache[bytes, Object] = ExpiringCache(_CACHE_SIZE, initializer.monotonic)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        resource = attributes.resource
        ephemeral = attributes.subresource == "ephemeralcontainers"
        if not is_pod(attributes) and not (ephemeral and resource.resource == "pods" and not resource.group):
            return None
        pod = attributes.obj or {}
        pod_spec = pod.get("spec") or {}
        fields = ("ephemeralContainers",) if ephemeral else ("containers", "initContainers")
        images = [{"image": found.get("image", "")} for field in fields for found in elements(pod_spec, field)]
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        spec: Object = {"containers": images}
        chosen = {key: value for key, value in annotations.items() if _OF_INTEREST in key}
        if chosen:
            spec["annotations"] = chosen
        spec["namespace"] = attributes.namespace
        return self._review(attributes, spec)

    async def _review(self, attributes: Attributes, spec: Object) -> None:
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        verdict = self._known.get(key)
        if verdict is None:
            try:
                verdict = await self._reviews.status({**_REVIEW, "spec": spec})
            except ReviewError as error:
                if not self._default_allow:
                    raise denied(attributes, str(error)) from None
                attributes.annotate(_PREFIX + "failed-open", "true")
                return
            ttl = self._allow_ttl if verdict.get("allowed") else self._deny_ttl
            self._known.put(key, verdict, ttl)
        for name, value in entries(verdict, "auditAnnotations"):
            attributes.annotate(_PREFIX + name, value)
        if not verdict.get("allowed"):
            reason = verdict.get("reason")
            if reason:
                raise denied(attributes, f"image policy webhook backend denied one or more images: {reason}")
            raise denied(attributes, "one or more images rejected by webhook backend")


def _seconds(given: Object, name: str, unit: float, default: float, least: float, most: float) -> float:
    """A duration in seconds, from ``least`` to ``most``.  ``unit`` (seconds) is that of the configuration."""
    value = given.get(name) or 0
    if value == 0:
        return default
    if value == -1:  # none at all
        return 0.0
    seconds: float = value * unit
    if not least <= seconds <= most:
        least_text, most_text, text = map(duration_text, (least, most, seconds))
        raise ValueError(f"valid value is between {least_text} and {most_text}, got {text}")
    return seconds
