"""Webhooks over real HTTPS: what they are asked, what their answers do, and what their failures cost."""

from __future__ import annotations

import base64
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
from twisted.internet import reactor, ssl
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from kapi.admission.chain import Chain
from kapi.admission.interface import Plugin
from kapi.admission.webhook import mutating, validating
from kapi.admission.webhook.credentials import CredentialStore
from kapi.admission.webhook.resolver import ServiceError, ServiceResolver
from kapi.client.kubeconfig import Credentials
from kapi.machinery.status import BadRequest, StatusError
from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate
from tests.admission.fakes import FakeClient, attributes, initializer, pod

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


class WebhookCase(TestCase):
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
        await deferLater(reactor, 0.02)
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
        for name, module in (("MutatingAdmissionWebhook", mutating), ("ValidatingAdmissionWebhook", validating)):
            plugin = module.make(self.initializer, None)
            plugin.name = name
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

    # -- what is asked and answered ---------------------------------------------------------------------------------

    async def test_the_review_says_all_about_the_request(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        await chain.validate(self.attributes(options={"kind": "CreateOptions"}, dry_run=True))
        request = self.hooks.reviews[0]["request"]
        self.assertEqual(request["kind"], {"group": "", "version": "v1", "kind": "ConfigMap"})
        self.assertEqual(request["requestResource"], {"group": "", "version": "v1", "resource": "configmaps"})
        self.assertEqual((request["operation"], request["dryRun"], request["namespace"]), ("CREATE", True, "n"))
        self.assertEqual(request["userInfo"]["username"], "someone")
        self.assertEqual(request["object"], config_map())
        self.assertIsNone(request["oldObject"])

    async def test_paths_are_asked_for_as_client_go_asks(self) -> None:
        """envtest writes two slashes between host and path; servers in Go redirect to the cleaned path."""
        doubled, ended = self.hook(respond), self.hook(respond)
        doubled["clientConfig"]["url"] = f"https://127.0.0.1:{self.number}//0"
        ended["clientConfig"]["url"] += "/"
        await self.chain(check=(doubled, ended)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 2)

    async def test_a_refusal_is_answered_in_the_webhooks_words(self) -> None:
        status = {"message": "not on a Friday", "code": 418, "reason": "Teapot"}
        chain = self.chain(check=(self.hook(lambda review: respond(review, allowed=False, status=status)),))
        error = await self.refused(chain)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" denied the request: not on a Friday')
        self.assertEqual((error.code, error.reason), (418, "Teapot"))

    async def test_the_request_is_told_how_long_webhooks_took(self) -> None:
        waits: list[float] = []
        asked = self.attributes()
        asked.request = SimpleNamespace(add_wait=waits.append, trace=None)  # type: ignore[assignment]
        chain = self.chain(mutate=(self.hook(respond),), check=(self.hook(respond), self.hook(respond)))
        await chain.admit(asked)
        await chain.validate(asked)
        self.assertEqual(len(waits), 2)
        self.assertTrue(all(0 < wait < 5 for wait in waits), waits)

    async def test_a_refusal_without_words(self) -> None:
        chain = self.chain(check=(self.hook(lambda review: respond(review, allowed=False)),))
        error = await self.refused(chain)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" denied the request without explanation')
        self.assertEqual(error.code, 400)

    async def test_patches_change_the_object_one_after_the_other(self) -> None:
        first = self.hook(lambda r: respond(r, **patch_of({"op": "add", "path": "/data/one", "value": "1"})))
        second = self.hook(lambda r: respond(r, **patch_of({"op": "copy", "from": "/data/one", "path": "/data/two"})))
        wanted = self.attributes()
        await self.chain(mutate=(first, second)).admit(wanted)
        self.assertEqual(wanted.obj["data"], {"k": "v", "one": "1", "two": "1"})
        self.assertEqual(
            orjson.loads(wanted.annotations["mutation.webhook.admission.k8s.io/round_0_index_1"]),
            {"configuration": "m", "webhook": "h1.example.com", "mutated": True},
        )

    async def test_warnings_and_audit_annotations_are_passed_on(self) -> None:
        answer = {"warnings": ["careful"], "auditAnnotations": {"why": "because"}}
        wanted = self.attributes()
        await self.chain(check=(self.hook(lambda r: respond(r, **answer)),)).validate(wanted)
        self.assertEqual(wanted.warnings, ["careful"])
        self.assertEqual(wanted.annotations["h0.example.com/why"], "because")

    async def test_audit_annotations_have_names_and_keep_their_first_value(self) -> None:
        said = iter(("one", "two"))
        hook = self.hook(
            lambda r: respond(r, auditAnnotations={"a": next(said), "b/c": "x", "d e": "x"}),
            reinvocationPolicy="IfNeeded",
        )
        late = self.hook(lambda r: respond(r, **patch_of({"op": "add", "path": "/data/late", "value": "x"})))
        wanted = self.attributes()
        await self.chain(mutate=(hook, late)).admit(wanted)
        self.assertEqual(len(self.hooks.reviews), 3)
        own = {key: value for key, value in wanted.annotations.items() if key.startswith("h0.")}
        self.assertEqual(own, {"h0.example.com/a": "one"})

    async def test_a_patch_that_cannot_be_read_is_a_failed_call(self) -> None:
        def bad(review: Object) -> Object:
            return respond(review, patchType="JSONPatch", patch=base64.b64encode(b"{").decode())

        wanted = self.attributes()
        await self.chain(mutate=(self.hook(bad, failurePolicy="Ignore"),)).admit(wanted)
        note = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"
        self.assertEqual(wanted.annotations[note], "h0.example.com")
        strict = self.chain(mutate=(self.hook(bad),))
        with self.assertRaises(StatusError) as caught:
            await strict.admit(self.attributes())
        self.assertIn("received undecodable patch in webhook response", caught.exception.message)

    async def test_what_defaulting_undoes_was_a_change_all_the_same(self) -> None:
        hook = self.hook(
            lambda r: respond(r, **patch_of({"op": "remove", "path": "/spec/restartPolicy"})),
            rules=[{**RULE, "resources": ["pods"]}],
        )
        obj = {**pod(restartPolicy="Always"), "apiVersion": "v1", "kind": "Pod"}
        wanted = attributes(obj)
        await self.chain(mutate=(hook,)).admit(wanted)
        self.assertEqual(wanted.obj["spec"]["restartPolicy"], "Always")
        said = orjson.loads(wanted.annotations["mutation.webhook.admission.k8s.io/round_0_index_0"])
        self.assertTrue(said["mutated"])

    async def test_a_request_without_time_asks_nobody(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        late = self.attributes()
        late.deadline = reactor.seconds() - 1  # type: ignore[attr-defined]
        error = await self.refused(chain, late)
        self.assertEqual((error.code, error.reason), (504, "Timeout"))
        self.assertEqual(self.hooks.reviews, [])

    async def test_reinvocation_shows_what_later_webhooks_did(self) -> None:
        def first(review: Object) -> Object:
            seen = sorted(review["request"]["object"]["data"])
            return respond(review, **patch_of({"op": "add", "path": "/data/seen", "value": ",".join(seen)}))

        def second(review: Object) -> Object:
            return respond(review, **patch_of({"op": "add", "path": "/data/late", "value": "x"}))

        wanted = self.attributes()
        hooks = (self.hook(first, reinvocationPolicy="IfNeeded"), self.hook(second))
        await self.chain(mutate=hooks).admit(wanted)
        self.assertEqual(wanted.obj["data"]["seen"], "k,late,seen")
        self.assertEqual(len(self.hooks.reviews), 3)

    async def test_the_answer_must_be_to_this_question(self) -> None:
        chain = self.chain(check=(self.hook(lambda r: respond(r, uid="other")),))
        error = await self.refused(chain)
        self.assertIn("received invalid webhook response: expected response.uid=", error.message)
        self.assertEqual(error.code, 500)

    async def test_a_validating_webhook_may_not_patch(self) -> None:
        operation = {"op": "remove", "path": "/data"}
        chain = self.chain(check=(self.hook(lambda r: respond(r, **patch_of(operation))),))
        self.assertIn("validating webhook may not return response.patch", (await self.refused(chain)).message)

    # -- who is asked -----------------------------------------------------------------------------------------------

    async def test_selectors_and_rules_decide_who_is_asked(self) -> None:
        def not_me(review: Object) -> Any:
            raise AssertionError("this webhook is not concerned")

        others = (
            self.hook(not_me, namespaceSelector={"matchLabels": {"team": "y"}}),
            self.hook(not_me, objectSelector={"matchLabels": {"a": "b"}}),
            self.hook(not_me, rules=[{**RULE, "operations": ["UPDATE"]}]),
            self.hook(not_me, rules=[{**RULE, "resources": ["configmaps/status"]}]),
            self.hook(not_me, rules=[{**RULE, "scope": "Cluster"}]),
        )
        mine = self.hook(
            respond, namespaceSelector={"matchLabels": {"team": "x"}}, rules=[{**RULE, "resources": ["*"]}]
        )
        await self.chain(check=(*others, mine)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 1)

    async def test_configurations_are_never_subject_to_webhooks(self) -> None:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        chain = self.chain(check=(self.hook(lambda r: respond(r, allowed=False), rules=[rule]),))
        wanted = attributes(
            {"metadata": {"name": "v"}}, group="admissionregistration.k8s.io", kind="ValidatingWebhookConfiguration",
            resource="validatingwebhookconfigurations", namespace="",
        )  # fmt: skip
        await chain.validate(wanted)
        self.assertEqual(self.hooks.reviews, [])

    async def test_conditions_keep_requests_from_a_webhook(self) -> None:
        never = {"name": "c", "expression": "object.metadata.name == 'other'"}
        await self.chain(check=(self.hook(respond, matchConditions=[never]),)).validate(self.attributes())
        self.assertEqual(self.hooks.reviews, [])

    async def test_dry_runs_need_a_webhook_without_side_effects(self) -> None:
        chain = self.chain(check=(self.hook(respond, sideEffects="Some"),))
        error = await self.refused(chain, self.attributes(dry_run=True))
        self.assertIsInstance(error, BadRequest)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" does not support dry run')

    async def test_services_are_resolved_and_verified_by_their_name(self) -> None:
        hook = self.hook(respond)
        hook["clientConfig"] = {"service": {"namespace": "default", "name": "hook", "path": "/0"}, "caBundle": BUNDLE}
        await self.chain(check=(hook,)).validate(self.attributes())
        self.assertEqual(self.hooks.headers[0][b"Host"], [b"hook.default.svc"])

    async def test_credentials_of_the_kubeconfig_are_shown(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        store = CredentialStore({f"127.0.0.1:{self.number}": Credentials(token="secret")})
        self.plugins[1].client._credentials = store  # type: ignore[attr-defined]
        await chain.validate(self.attributes())
        self.assertEqual(self.hooks.headers[0][b"Authorization"], [b"Bearer secret"])

    async def test_a_client_certificate_is_shown_to_who_wants_one(self) -> None:
        certificate, key = make_certificate("kapi")
        trusted = ssl.Certificate.loadPEM(certificate)
        options = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE).options(trusted)
        strict = reactor.listenSSL(0, self.site, options, interface="127.0.0.1")  # type: ignore[attr-defined]
        number = strict.getHost().port
        hook = self.hook(respond)
        hook["clientConfig"]["url"] = f"https://127.0.0.1:{number}/0"
        chain = self.chain(check=(hook,))
        try:
            self.assertIn("failed to call webhook", (await self.refused(chain)).message)
            mine = Credentials(certificate=certificate, key=key)
            self.plugins[1].client._credentials = CredentialStore({f"127.0.0.1:{number}": mine})  # type: ignore[attr-defined]
            await chain.validate(self.attributes())
            self.assertEqual(len(self.hooks.reviews), 1)
            await self.plugins[1].client.close()  # type: ignore[attr-defined]
        finally:
            await strict.stopListening()

    # -- failures ---------------------------------------------------------------------------------------------------

    async def test_a_dead_webhook_fails_the_request_or_is_ignored(self) -> None:
        number = self.number
        dead = self.hook(respond, clientConfig={"url": "https://127.0.0.1:1/x"}, timeoutSeconds=1)
        error = await self.refused(self.chain(check=(dead,)))
        self.assertEqual(
            error.message,
            'Internal error occurred: failed calling webhook "h0.example.com": failed to call webhook: '
            'Post "https://127.0.0.1:1/x?timeout=1s": dial tcp 127.0.0.1:1: connect: connection refused',
        )
        self.assertNotEqual(number, 1)

    async def test_ignored_failures_leave_a_note(self) -> None:
        dead = self.hook(respond, clientConfig={"url": "https://127.0.0.1:1/x"}, failurePolicy="Ignore")
        wanted = self.attributes()
        await self.chain(check=(dead,)).validate(wanted)
        note = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0"
        self.assertEqual(wanted.annotations[note], "h0.example.com")

    async def test_a_silent_webhook_costs_its_timeout(self) -> None:
        slow = self.hook(lambda review: NOT_DONE_YET, timeoutSeconds=1)
        start = reactor.seconds()  # type: ignore[attr-defined]
        error = await self.refused(self.chain(check=(slow,)))
        self.assertIn("context deadline exceeded", error.message)
        self.assertLess(reactor.seconds() - start, 9)  # type: ignore[attr-defined]

    async def test_an_unknown_authority_is_not_trusted(self) -> None:
        other, _ = make_certificate("127.0.0.1")
        hook = self.hook(respond)
        hook["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn("failed to verify certificate", error.message)
        self.assertEqual(self.hooks.reviews, [])

    async def test_a_name_the_certificate_does_not_have_is_not_trusted(self) -> None:
        hook = self.hook(respond)
        hook["clientConfig"]["url"] = hook["clientConfig"]["url"].replace("127.0.0.1", "localhost")
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn("failed to verify certificate", error.message)

    async def test_a_bundle_without_certificates_is_no_bundle(self) -> None:
        hook = self.hook(respond)
        hook["clientConfig"]["caBundle"] = base64.b64encode(b"nothing").decode()
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn(
            "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block",
            error.message,
        )

    async def test_redirects_are_not_followed(self) -> None:
        target = self.hook(respond)["clientConfig"]["url"].encode()
        hook = self.hook(lambda r: (302, b"", (b"location", target)))
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn("failed to call webhook", error.message)
        self.assertEqual(len(self.hooks.reviews), 1)

    async def test_answers_are_bounded(self) -> None:
        hook = self.hook(lambda r: (200, b" " * (4 * 1024 * 1024)))
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn("larger than", error.message)

    async def test_garbage_is_no_answer(self) -> None:
        error = await self.refused(self.chain(check=(self.hook(lambda r: (200, b"<html>")),)))
        self.assertIn("json parse error", error.message)

    async def test_an_error_of_the_webhook_is_told(self) -> None:
        error = await self.refused(self.chain(check=(self.hook(lambda r: (500, b"boom")),)))
        self.assertIn('an error on the server ("boom") has prevented the request from succeeding', error.message)

    # -- many at once -----------------------------------------------------------------------------------------------

    async def test_validating_webhooks_are_asked_at_the_same_time(self) -> None:
        waiting: list[Deferred[None]] = []

        class Both(Resource):
            isLeaf = True

            def render_POST(self, request: Any) -> Any:
                review = orjson.loads(request.content.read())
                done: Deferred[None] = Deferred()
                waiting.append(done)
                done.addCallback(lambda _: (request.write(orjson.dumps(respond(review))), request.finish()))
                if len(waiting) == 2:
                    for one in waiting:
                        one.callback(None)
                return NOT_DONE_YET

        self.port.factory.wrappedFactory.resource = Both()
        await self.chain(check=(self.hook(respond), self.hook(respond))).validate(self.attributes())
        self.assertEqual(len(waiting), 2)

    async def test_connections_are_kept(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        for _ in range(5):
            await chain.validate(self.attributes())
        self.assertEqual(self.site.connections, 1)

    async def test_calls_at_once_take_a_connection_each_and_later_ones_none(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        for _ in range(2):
            await gatherResults([Deferred.fromCoroutine(chain.validate(self.attributes())) for _ in range(5)])
        self.assertEqual((self.site.connections, len(self.hooks.reviews)), (5, 10))

    async def test_a_connection_that_the_webhook_closed_is_not_used_again(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        await chain.validate(self.attributes())
        for channel in list(self.site.channels):
            channel._channel.loseConnection()
        await deferLater(reactor, 0.05)
        await chain.validate(self.attributes())
        self.assertEqual(self.site.connections, 2)

    async def test_a_silent_webhook_costs_other_requests_nothing(self) -> None:
        slow = self.hook(lambda review: NOT_DONE_YET, timeoutSeconds=5, objectSelector={"matchLabels": {"slow": "yes"}})
        chain = self.chain(check=(slow, self.hook(respond)))
        stuck = Deferred.fromCoroutine(chain.validate(self.attributes(config_map(labels={"slow": "yes"}))))
        stuck.addErrback(lambda why: why.trap(CancelledError) and None)
        while not any("labels" in review["request"]["object"]["metadata"] for review in self.hooks.reviews):
            await deferLater(reactor, 0.005)
        for _ in range(3):
            await chain.validate(self.attributes())
        self.assertFalse(stuck.called)
        stuck.cancel()


class ServiceResolverCase(TestCase):
    def resolver(self, **spec: Any) -> ServiceResolver:
        client = FakeClient()
        client.put("", "services", {"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
        return ServiceResolver(
            client.resource("", "services").lister, {"n/mapped:8443": "127.0.0.1:1", "n/any": "[::1]:2"}
        )

    def test_addresses_and_settings(self) -> None:
        resolver = self.resolver(clusterIP="10.0.0.9", ports=[{"port": 443}])
        self.assertEqual(resolver.resolve("n", "s", 443), ("10.0.0.9", 443))
        self.assertEqual(resolver.resolve("n", "mapped", 8443), ("127.0.0.1", 1))
        self.assertEqual(resolver.resolve("n", "any", 443), ("::1", 2))
        external = self.resolver(type="ExternalName", externalName="hooks.example.com")
        self.assertEqual(external.resolve("n", "s", 99), ("hooks.example.com", 99))

    def test_endpoints_instead_of_the_cluster_ip(self) -> None:
        client = FakeClient()
        spec = {"clusterIP": "None", "ports": [{"name": "a", "port": 443}, {"name": "b", "port": 444}]}
        client.put("", "services", {"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
        slices = client.resource("discovery.k8s.io", "endpointslices").lister
        resolver = ServiceResolver(client.resource("", "services").lister, {}, slices)
        with self.assertRaises(ServiceError) as caught:
            resolver.resolve("n", "s", 443)
        self.assertEqual(str(caught.exception), 'no endpoints available for service "s"')
        endpoints = [
            {"addresses": ["192.0.2.1"]},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": True}},
            {"addresses": ["192.0.2.3"], "conditions": {"ready": False}},
        ]
        ports = [{"name": "a", "port": 8443}, {"name": "b", "port": 8444}]
        metadata = {"name": "s-1", "namespace": "n", "labels": {"kubernetes.io/service-name": "s"}}
        client.put("discovery.k8s.io", "endpointslices", {"metadata": metadata, "endpoints": endpoints, "ports": ports})
        found = {resolver.resolve("n", "s", 443) for _ in range(100)}
        self.assertEqual(found, {("192.0.2.1", 8443), ("192.0.2.2", 8443)})

    def test_what_leads_nowhere(self) -> None:
        for spec, port, said in (
            ({"clusterIP": "10.0.0.9", "ports": [{"port": 443}]}, 444, 'no service port 444 found for service "s"'),
            ({"clusterIP": "None", "ports": [{"port": 443}]}, 443, 'cannot route to service with ClusterIP "None"'),
            ({"type": "Odd"}, 443, 'unsupported service type "Odd"'),
        ):
            with self.assertRaises(ServiceError) as caught:
                self.resolver(**spec).resolve("n", "s", port)  # type: ignore[arg-type]
            self.assertEqual(str(caught.exception), said)
        with self.assertRaises(ServiceError):
            self.resolver().resolve("n", "other", 443)
