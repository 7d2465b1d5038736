"""Calls of webhooks: identities, time, failures, connections."""

from __future__ import annotations

import base64
from typing import Any

import orjson
from OpenSSL import SSL
from prometheus_client.registry import CollectorRegistry
from twisted.internet import reactor, ssl
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from kapi.admission.metrics import Meter
from kapi.admission.webhook.client import CredentialStore, is_local
from kapi.admission.webhook.resolver import ServiceError, ServiceResolver
from kapi.client.kubeconfig import Credentials
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate
from tests.admission.fakes import FakeClient, attributes
from tests.admission.webhook_case import (
    BUNDLE,
    CERTIFICATE,
    KEY,
    WebhookTestCase,
    config_map,
    respond,
)
from tests.waiting import accepted_ended, eventually
from tests.wire.http2_server import CERTIFICATE as HTTP2_CERTIFICATE
from tests.wire.http2_server import Request, honest, options


class WebhookCalls(WebhookTestCase):
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

    async def test_the_deadline_of_the_request_is_not_the_fault_of_the_webhook(self) -> None:
        """Whatever the webhook's policy: the request has run out of time."""
        for policy in ("Fail", "Ignore"):
            for kind, step in (("mutate", "admit"), ("check", "validate")):
                slow = self.hook(lambda review: NOT_DONE_YET, timeoutSeconds=9, failurePolicy=policy)
                late = self.attributes()
                late.deadline = reactor.seconds() + 0.1  # type: ignore[attr-defined]
                with self.assertRaises(StatusError) as caught:
                    await getattr(self.chain(**{kind: (slow,)}), step)(late)
                self.assertEqual(caught.exception.code, 504)
                self.assertEqual(
                    caught.exception.message, "Timeout: request did not complete within the allotted timeout"
                )

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

    async def test_redirects_are_followed(self) -> None:
        """As by Go's client: the review goes along with 307 and 308, and the other ones end in a GET."""
        target = self.hook(respond)["clientConfig"]["url"].encode()
        hooks = [self.hook(lambda r, code=code: (code, b"", (b"location", target))) for code in (307, 308)]
        await self.chain(check=tuple(hooks)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 4)
        self.assertEqual(sum(b"Referer" in headers for headers in self.hooks.headers), 2)
        error = await self.refused(self.chain(check=(self.hook(lambda r: (302, b"", (b"location", target))),)))
        self.assertIn("the server does not allow this method on the requested resource", error.message)
        for place, why in (
            (b"#", "stopped after 10 redirects"),
            (b"http://127.0.0.1/", 'Post "http://127.0.0.1/": unsupported protocol scheme "http"'),
            (b"https://127.0.0.1:1/", "dial tcp 127.0.0.1:1: connect: connection refused"),
        ):
            hook = self.hook(lambda r, place=place: (307, b"", (b"location", place)))
            self.assertIn(why, (await self.refused(self.chain(check=(hook,)))).message)

    async def test_where_a_redirect_leads_has_the_certificate_of_its_host_or_of_the_service(self) -> None:
        target = self.hook(respond)["clientConfig"]["url"].replace("127.0.0.1", "localhost").encode()
        hook = self.hook(lambda r: (307, b"", (b"location", target)))
        path = hook["clientConfig"]["url"].partition(f":{self.number}")[2]
        service = {"namespace": "default", "name": "hook", "path": path}
        of_service = {**hook, "clientConfig": {"service": service, "caBundle": BUNDLE}}
        await self.chain(check=(of_service,)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 2)
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn(f'Post "{target.decode()}": tls: failed to verify certificate', error.message)

    async def test_an_answer_that_asks_for_it_is_retried_ten_times(self) -> None:
        for code, after, asked in ((429, b"0", 11), (503, b"-1", 11), (500, b"x", 1), (429, b"", 1), (409, b"0", 1)):
            self.hooks.reviews.clear()
            hook = self.hook(lambda r, code=code, after=after: (code, b"", (b"retry-after", after)))
            await self.refused(self.chain(check=(hook,)))
            self.assertEqual(len(self.hooks.reviews), asked, (code, after))
        hook = self.hook(lambda r: (429, b"", (b"retry-after", b"1")), timeoutSeconds=1)
        error = await self.refused(self.chain(check=(hook,)))
        self.assertTrue(error.message.endswith("context deadline exceeded"), error.message)

    async def test_an_answer_in_yaml_is_read(self) -> None:
        def say(review: Object) -> Any:
            head, uid = "kind: AdmissionReview\napiVersion: admission.k8s.io/v1\n", review["request"]["uid"]
            text = f"{head}response: {{allowed: true, uid: {uid}}}"
            return 200, text.encode(), (b"content-type", b"text/plain")

        await self.chain(check=(self.hook(say),)).validate(self.attributes())
        error = await self.refused(self.chain(check=(self.hook(lambda r: (200, b"a: b: c")),)))
        self.assertIn("failed to call webhook: yaml: mapping values are not allowed in this context", error.message)

    async def test_answers_are_bounded(self) -> None:
        hook = self.hook(lambda r: (200, b" " * (4 * 1024 * 1024)))
        error = await self.refused(self.chain(check=(hook,)))
        self.assertIn("larger than", error.message)

    async def test_garbage_is_no_answer(self) -> None:
        error = await self.refused(self.chain(check=(self.hook(lambda r: (200, b"<html>")),)))
        self.assertIn("json parse error", error.message)
        for body, kind in ((b"[]", "array"), (b'"x"', "string"), (b"5", "number")):
            error = await self.refused(self.chain(check=(self.hook(lambda r, body=body: (200, body)),)))
            why = f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into Go value of type"
            self.assertIn(f"failed to call webhook: {why}", error.message)

    async def test_an_error_of_the_webhook_is_told(self) -> None:
        error = await self.refused(self.chain(check=(self.hook(lambda r: (500, b"boom")),)))
        self.assertIn('an error on the server ("boom") has prevented the request from succeeding', error.message)

    async def test_a_refusal_without_a_status_is_told_by_its_code(self) -> None:
        for code, body, media, told in (
            (400, b"no", "text/plain", "the server rejected our request for an unknown reason"),
            (403, b" not you ", "text/plain", "not you"),
            (403, b"{}", "application/json", "unknown"),
            (409, b"", "text/plain", "the server reported a conflict"),
            (418, b"tea", "", "the server responded with the status code 418 but did not return more information"),
            (422, b"", "text/plain", "the server rejected our request due to an error in our request"),
            (429, b"", "text/plain", "the server has received too many requests and has asked us to try again later"),
            (502, b'a "b"', "", 'an error on the server ("a \\"b\\"") has prevented the request from succeeding'),
            (503, b"boom", "text/plain", "the server is currently unable to handle the request"),
        ):
            with self.subTest(code=code, media=media):
                answer = code, body, (b"content-type", media.encode())
                hook = self.hook(lambda r, answer=answer: answer)
                error = await self.refused(self.chain(check=(hook,)))
                self.assertTrue(error.message.endswith(f"failed to call webhook: {told}"), error.message)

    async def test_a_status_of_the_webhook_is_told_in_its_words(self) -> None:
        for answer, told in (
            ({"kind": "Status", "status": "Failure", "message": "not today"}, "not today"),
            ({"kind": "Status", "message": "not today"}, "an error on the server ("),
            ({"kind": "Other", "status": "Failure", "message": "not today"}, "an error on the server ("),
            ({"kind": "Status"}, "an error on the server ("),
            (["not today"], "an error on the server ("),
        ):
            body = orjson.dumps(answer)
            error = await self.refused(self.chain(check=(self.hook(lambda r, body=body: (500, body)),)))
            self.assertIn(f"failed to call webhook: {told}", error.message)

    async def test_the_log_does_not_quote_an_answer_about_a_secret(self) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
        silent = self.hook(lambda r: (500, b"it says hunter2"), failurePolicy="Ignore", rules=[rule])
        for resource, kind, quoted in (("secrets", "Secret", False), ("configmaps", "ConfigMap", True)):
            wanted = attributes({"metadata": {"name": "a", "namespace": "n"}}, resource=resource, kind=kind)
            with capturedLogs() as events:
                await self.chain(check=(silent,)).validate(wanted)
            lines = [formatEvent(event) for event in events]
            self.assertTrue(any("failing open" in line for line in lines))
            self.assertEqual(any("hunter2" in line for line in lines), quoted)

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

    async def test_a_request_that_ends_calls_none_of_them_any_longer(self) -> None:
        self.initializer.meter = Meter(CollectorRegistry())
        silent = [self.hook(lambda review: NOT_DONE_YET, timeoutSeconds=30) for _ in range(2)]
        for count in (1, 2):
            self.hooks.reviews.clear()
            waiting = Deferred.fromCoroutine(self.chain(check=tuple(silent[:count])).validate(self.attributes()))
            while len(self.hooks.reviews) < count:
                await deferLater(reactor, 0.005)
            waiting.cancel()
            with self.assertRaises(CancelledError):
                await waiting
        self.assertEqual([family.name for family in self.initializer.meter.collect() if family.samples], [])

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

    async def test_http2_is_offered_to_webhooks_on_this_machine_only(self) -> None:
        offered: list[list[bytes]] = []

        def choose(connection: SSL.Connection, protocols: list[bytes]) -> bytes:
            offered.append(protocols)
            return b"http/1.1"

        options = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE).options()
        options.getContext().set_alpn_select_callback(choose)
        await self.port.stopListening()
        self.port = reactor.listenSSL(self.number, self.site, options, interface="127.0.0.1")  # type: ignore[attr-defined]
        url, service = self.hook(respond), self.hook(respond)
        service["clientConfig"] = {
            "service": {"namespace": "default", "name": "hook", "path": "/1"},
            "caBundle": BUNDLE,
        }
        await self.chain(check=(url, service)).validate(self.attributes())
        self.assertEqual((self.site.connections, offered), (2, [[b"h2", b"http/1.1"]]))

    def test_which_hosts_are_this_machine(self) -> None:
        for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
            self.assertTrue(is_local(host), host)
        for host in ("localhost.example.com", "example.com", "10.0.0.1", "::", "::ffff:10.0.0.1", ""):
            self.assertFalse(is_local(host), host)

    async def test_calls_at_once_share_one_connection_over_http2(self) -> None:
        hook = self.hook(respond)
        waiting: list[Request] = []
        server = honest(waiting.append)
        await self.port.stopListening()
        self.port = reactor.listenSSL(self.number, server, options(b"h2"), interface="127.0.0.1")  # type: ignore[attr-defined]
        hook["clientConfig"]["caBundle"] = base64.b64encode(HTTP2_CERTIFICATE).decode()
        chain = self.chain(check=(hook,))
        for _ in range(2):
            calls = [Deferred.fromCoroutine(chain.validate(self.attributes())) for _ in range(5)]
            await eventually(lambda: len(waiting) == 5)
            for request in waiting:
                request.answer(orjson.dumps(respond(orjson.loads(request.body))))
            waiting.clear()
            await gatherResults(calls)
        self.assertEqual(len(server.connections), 1)

    async def test_a_connection_that_the_webhook_closed_is_not_used_again(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        await chain.validate(self.attributes())
        for channel in list(self.site.channels):
            channel._channel.loseConnection()
        await accepted_ended()  # and so is the other end
        await chain.validate(self.attributes())
        self.assertEqual(self.site.connections, 2)

    async def test_a_silent_webhook_costs_other_requests_nothing(self) -> None:
        slow = self.hook(lambda review: NOT_DONE_YET, timeoutSeconds=5, objectSelector={"matchLabels": {"slow": "yes"}})
        chain = self.chain(check=(slow, self.hook(respond)))
        stuck = Deferred.fromCoroutine(chain.validate(self.attributes(config_map(labels={"slow": "yes"}))))
        while not any("labels" in review["request"]["object"]["metadata"] for review in self.hooks.reviews):
            await deferLater(reactor, 0.005)
        for _ in range(3):
            await chain.validate(self.attributes())
        self.assertFalse(stuck.called)
        stuck.cancel()
        with self.assertRaises(CancelledError):
            await stuck


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
        for kind in ("ClusterIP", "NodePort", "LoadBalancer"):
            typed = self.resolver(type=kind, clusterIP="10.0.0.9", ports=[{"port": 80}, {"port": 443}])
            self.assertEqual(typed.resolve("n", "s", 443), ("10.0.0.9", 443))
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
        for name, other in (("r-1", "r"), ("r-2", "")):  # of other services
            labels = {"labels": {"kubernetes.io/service-name": other}} if other else {}
            others = {
                "metadata": {"name": name, "namespace": "n", **labels},
                "endpoints": endpoints,
                "ports": [{"port": 1}],
            }
            client.put("discovery.k8s.io", "endpointslices", others)
        metadata = {"name": "s-1", "namespace": "n", "labels": {"kubernetes.io/service-name": "s"}}
        client.put("discovery.k8s.io", "endpointslices", {"metadata": metadata, "endpoints": endpoints, "ports": ports})
        with self.assertRaises(ServiceError) as caught:
            resolver.resolve("n", "s", 445)
        self.assertEqual(str(caught.exception), 'no service port 445 found for service "s"')
        found = {resolver.resolve("n", "s", 443) for _ in range(100)}
        self.assertEqual(found, {("192.0.2.1", 8443), ("192.0.2.2", 8443)})

    def test_what_leads_nowhere(self) -> None:
        for spec, port, said in (
            ({"clusterIP": "10.0.0.9", "ports": [{"port": 443}]}, 444, 'no service port 444 found for service "s"'),
            ({"clusterIP": "10.0.0.9"}, 443, 'no service port 443 found for service "s"'),
            ({"clusterIP": "", "ports": [{"port": 443}]}, 443, 'cannot route to service with ClusterIP "None"'),
            ({"ports": [{"port": 443}]}, 443, 'cannot route to service with ClusterIP "None"'),
            ({"clusterIP": "None", "ports": [{"port": 443}]}, 443, 'cannot route to service with ClusterIP "None"'),
            ({"type": "Odd"}, 443, 'unsupported service type "Odd"'),
        ):
            with self.assertRaises(ServiceError) as caught:
                self.resolver(**spec).resolve("n", "s", port)  # type: ignore[arg-type]
            self.assertEqual(str(caught.exception), said)
        for resolver in (self.resolver(), ServiceResolver(None)):
            with self.assertRaises(ServiceError) as caught:
                resolver.resolve("n", "other", 443)
            self.assertEqual(str(caught.exception), 'service "other" not found')
