"""A webhook over TLS, and a chain that asks it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
from twisted.internet import reactor, ssl
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from kapi.admission.chain import Chain
from kapi.admission.interface import Plugin
from kapi.admission.webhook import mutating, validating
from kapi.admission.webhook.resolver import ServiceResolver
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate
from tests.admission.fakes import FakeClient, attributes, initializer
from tests.waiting import accepted_ended

CERTIFICATE, KEY = make_certificate("127.0.0.1", "hook.default.svc")
BUNDLE = base64.b64encode(CERTIFICATE).decode()


class Hooks(Resource):
    """Webhooks by path; each answers what its function makes of the review."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[bytes, Callable[[Object], Any]] = {}
        self.reviews: list[Object] = []
        self.headers: list[dict[bytes, list[bytes]]] = []

    def render_GET(self, request: Any) -> bytes:
        request.setResponseCode(405)
        return b""

    def render_POST(self, request: Any) -> Any:
        review = orjson.loads(request.content.read())
        self.reviews.append(review)
        self.headers.append(dict(request.requestHeaders.getAllRawHeaders()))
        answer = self.answers[request.path](review)
        if answer is NOT_DONE_YET:
            return NOT_DONE_YET
        if isinstance(answer, tuple):
            request.setResponseCode(answer[0])
            for name, value in answer[2:]:
                request.setHeader(name, value)
            return answer[1]
        request.setHeader(b"content-type", b"application/json")
        return orjson.dumps(answer)


def respond(review: Object, **response: Any) -> Object:
    body = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}


def patch_of(*operations: Object) -> Object:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "*"}


def config_map(**metadata: Any) -> Object:
    meta = {"name": "a", "namespace": "n", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}}


class CountingSite(Site):
    """Counts connections, and knows those that are open."""

    def __init__(self, resource: Any) -> None:
        super().__init__(resource)
        self.connections = 0
        self.channels: list[Any] = []

    def buildProtocol(self, addr: Any) -> Any:
        channel: Any = super().buildProtocol(addr)
        self.connections += 1
        self.channels.append(channel)
        return channel


class WebhookTestCase(TestCase):
    def setUp(self) -> None:
        self.hooks = Hooks()
        key = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE)
        self.site = CountingSite(self.hooks)
        self.port = reactor.listenSSL(0, self.site, key.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.number = self.port.getHost().port
        self.client = FakeClient()
        self.client.put("", "namespaces", {"metadata": {"name": "n", "labels": {"team": "x"}}})
        self.initializer = initializer(
            self.client, reactor=reactor, resolver=ServiceResolver(None, {"default/hook": f"127.0.0.1:{self.number}"})
        )
        self.plugins: list[Plugin] = []

    async def tearDown(self) -> None:
        for plugin in self.plugins:
            await plugin.client.close()  # type: ignore[attr-defined]
        await self.port.stopListening()
        await accepted_ended()
        for warning in self.flushWarnings():  # twisted hands pyOpenSSL objects to pyOpenSSL, which it deprecates
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def hook(self, answer: Callable[[Object], Any], **more: Any) -> Object:
        path = f"/{len(self.hooks.answers)}"
        self.hooks.answers[path.encode()] = answer
        return {
            "name": f"h{path[1:]}.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.number}{path}", "caBundle": BUNDLE},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "timeoutSeconds": 5,
            **more,
        }

    def chain(self, *, mutate: tuple[Object, ...] = (), check: tuple[Object, ...] = ()) -> Chain:
        group = "admissionregistration.k8s.io"
        if mutate:
            self.client.put(
                group, "mutatingwebhookconfigurations", {"metadata": {"name": "m"}, "webhooks": list(mutate)}
            )
        if check:
            self.client.put(
                group, "validatingwebhookconfigurations", {"metadata": {"name": "v"}, "webhooks": list(check)}
            )
        for made in (mutating.MutatingAdmissionWebhook, validating.ValidatingAdmissionWebhook):
            plugin = made(self.initializer, None)
            plugin.name = made.__name__
            self.plugins.append(plugin)
        return Chain(self.plugins)

    def attributes(self, obj: Object | None = None, **more: Any) -> Any:
        return attributes(obj or config_map(), resource="configmaps", kind="ConfigMap", **more)

    async def refused(self, chain: Chain, wanted: Any = None) -> StatusError:
        try:
            await chain.validate(wanted or self.attributes())
        except StatusError as error:
            return error
        raise AssertionError("nothing refused the request")
