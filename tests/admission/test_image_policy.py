"""ImagePolicyWebhook against a server of its own over HTTPS."""

from __future__ import annotations

import base64
import os
import tempfile
from typing import Any
from unittest.mock import patch

import orjson
import pytest
import yaml
from twisted.internet import reactor, ssl
from twisted.internet.defer import CancelledError, ensureDeferred, maybeDeferred
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from kapi.admission.interface import UPDATE, Attributes, Plugin
from kapi.admission.plugins import image_policy_webhook
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate
from tests.admission.fakes import attributes, initializer, pod
from tests.waiting import accepted_ended

CERTIFICATE, KEY = make_certificate("127.0.0.1")


class Judge(Resource):
    """Answers reviews with ``verdict``, or with ``codes`` as long as there are any."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.verdict: Object = {"allowed": True}
        self.codes: list[int] = []
        self.silent = False
        self.asked: list[Object] = []

    def render_POST(self, request: Any) -> Any:
        review = orjson.loads(request.content.read())
        self.asked.append(review)
        if self.silent:
            return NOT_DONE_YET
        assert request.getHeader("authorization") == "Bearer secret"
        if self.codes:
            request.setResponseCode(self.codes.pop(0))
            return b"no"
        return orjson.dumps({**review, "status": self.verdict})


class ImagePolicyCase(TestCase):
    def setUp(self) -> None:
        self.judge = Judge()
        pair = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE)
        self.port = reactor.listenSSL(0, Site(self.judge), pair.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.clock = Clock()
        self.plugin: Any = None

    async def tearDown(self) -> None:
        if self.plugin is not None:
            await self.plugin._reviews.close()
        await maybeDeferred(self.port.stopListening)
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def make(self, **settings: Any) -> Plugin:
        cluster = {
            "server": f"https://127.0.0.1:{self.port.getHost().port}/judge",
            "certificate-authority-data": base64.b64encode(CERTIFICATE).decode(),
        }
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        kubeconfig = os.path.join(directory.name, "kubeconfig")
        document = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        with open(kubeconfig, "w") as file:
            yaml.safe_dump(document, file)
        given = {"kubeConfigFile": kubeconfig, "retryBackoff": 1, **settings}
        made = image_policy_webhook.ImagePolicyWebhook(
            initializer(reactor=reactor, monotonic=self.clock.seconds), {"imagePolicy": given}
        )
        self.plugin = made
        return made

    async def ask(self, request: Attributes | None = None) -> Attributes:
        request = request or attributes(pod(containers=[{"name": "c", "image": "one"}]))
        await self.plugin.validate(request)
        return request

    async def refusal(self, request: Attributes | None = None) -> str:
        with pytest.raises(StatusError) as caught:
            await ensureDeferred(self.ask(request))
        assert caught.value.code == 403
        return caught.value.message

    async def test_the_question(self) -> None:
        self.make()
        asked = pod(
            containers=[{"name": "c", "image": "one"}], initContainers=[{"name": "i", "image": "two"}],
            ephemeralContainers=[{"name": "e", "image": "three"}],
        )  # fmt: skip
        asked["metadata"]["annotations"] = {"team.image-policy.k8s.io/x": "y", "other": "z"}
        self.judge.verdict = {"allowed": True, "auditAnnotations": {"who": "me"}}
        request = await self.ask(attributes(asked))
        self.assertEqual(request.annotations["imagepolicywebhook.image-policy.k8s.io/who"], "me")
        review = self.judge.asked[0]
        self.assertEqual((review["kind"], review["apiVersion"]), ("ImageReview", "imagepolicy.k8s.io/v1alpha1"))
        self.assertEqual(
            review["spec"],
            {
                "containers": [{"image": "one"}, {"image": "two"}],
                "annotations": {"team.image-policy.k8s.io/x": "y"},
                "namespace": "n",
            },
        )
        await self.ask(attributes(asked, asked, operation=UPDATE, subresource="ephemeralcontainers"))
        self.assertEqual(self.judge.asked[1]["spec"]["containers"], [{"image": "three"}])
        self.assertIsNone(self.plugin.validate(attributes(asked, subresource="status")))

    async def test_a_refusal_says_why(self) -> None:
        self.make()
        self.judge.verdict = {"allowed": False, "reason": "too old"}
        self.assertIn("image policy webhook backend denied one or more images: too old", await self.refusal())
        self.judge.verdict = {"allowed": False}
        other = attributes(pod(containers=[{"name": "c", "image": "other"}]))
        self.assertIn("one or more images rejected by webhook backend", await self.refusal(other))

    async def test_words_are_no_truth_values(self) -> None:
        """``"false"`` must not let an image in."""
        self.make()
        for verdict in (
            {"allowed": "false"},
            {"allowed": 1},
            {"allowed": True, "auditAnnotations": "x"},
            5,
            "x",
            ["allowed"],
        ):
            self.judge.verdict = verdict  # type: ignore[assignment]
            self.assertIn("json: cannot unmarshal ", await self.refusal())

    async def test_verdicts_are_remembered_for_their_time(self) -> None:
        self.make(allowTTL=10, denyTTL=-1)
        for _ in range(2):
            await self.ask()
        self.assertEqual(len(self.judge.asked), 1)
        self.clock.advance(11)
        self.judge.verdict = {"allowed": False}
        for _ in range(2):
            await self.refusal()
        self.assertEqual(len(self.judge.asked), 3)

    async def test_allowed_images_are_remembered_for_five_minutes_and_refused_ones_for_half_of_one(self) -> None:
        self.make()
        for allowed, seconds in ((True, 300), (False, 30)):
            self.judge.asked.clear()
            self.judge.verdict = {"allowed": allowed}
            for after, times in ((0, 1), (seconds - 0.5, 1), (0.5, 2)):
                self.clock.advance(after)
                await (self.ask() if allowed else self.refusal())
                self.assertEqual(len(self.judge.asked), times)
            self.clock.advance(1000)

    async def test_failures_are_tried_again(self) -> None:
        self.make()
        self.judge.codes = [500, 429]
        await self.ask()
        self.assertEqual(len(self.judge.asked), 3)

    async def test_a_judge_that_fails_refuses_or_allows_as_configured(self) -> None:
        self.make()
        self.judge.codes = [400]
        self.assertIn("the server rejected our request for an unknown reason", await self.refusal())
        await self.plugin._reviews.close()
        self.make(defaultAllow=True)
        self.judge.codes = [400]
        request = await self.ask()
        self.assertEqual(request.annotations["imagepolicywebhook.image-policy.k8s.io/failed-open"], "true")
        self.assertNotIn("annotations", request.obj["metadata"])  # validation sees a copy upstream

    async def test_a_judge_that_is_away_refuses(self) -> None:
        self.make()
        await self.port.stopListening()
        self.assertRegex(await self.refusal(), r'Post "https?://.*": dial tcp .*connect: connection refused$')

    async def test_a_request_that_ends_asks_no_longer(self) -> None:
        self.make()
        self.judge.silent = True
        waiting = ensureDeferred(self.ask())
        while not self.judge.asked:
            await deferLater(reactor, 0.005)  # type: ignore[arg-type]
        waiting.cancel()
        with pytest.raises(CancelledError):
            await waiting
        self.assertEqual(len(self.judge.asked), 1)

    def test_a_configuration_is_checked(self) -> None:
        text = "valid value is between {} and {}, got {}"
        for wrong, why in (
            ({"allowTTL": 3600}, text.format("1s", "30m0s", "1h0m0s")),
            ({"denyTTL": -2}, text.format("1s", "30m0s", "-2s")),
            ({"retryBackoff": 300_001}, text.format("1ns", "5m0s", "5m0.001s")),
            ({"retryBackoff": -2, "allowTTL": 1, "kubeConfigFile": ""}, text.format("1ns", "5m0s", "-2ms")),
            ({"kubeConfigFile": "/nowhere"}, ""),
        ):
            with self.assertRaises(ValueError) as caught:
                self.make(**wrong)
            self.assertIn(why, str(caught.exception))
        for right in (
            {"allowTTL": 1, "denyTTL": 1800},
            {"retryBackoff": 300_000},
            {"allowTTL": 0, "denyTTL": 1},
            {"denyTTL": -1},
        ):
            self.make(**right)
        with self.assertRaises(ValueError):
            image_policy_webhook.ImagePolicyWebhook(initializer(reactor=reactor), None)

    def test_how_long_answers_are_kept_and_retries_wait(self) -> None:
        for settings, wanted in (
            ({"retryBackoff": 0}, (0.5, 300.0, 30.0)),
            ({"retryBackoff": 2, "allowTTL": 3, "denyTTL": 4}, (0.002, 3.0, 4.0)),
            ({"retryBackoff": -1, "allowTTL": -1, "denyTTL": -1}, (0.0, 0.0, 0.0)),
        ):
            with patch("kapi.admission.plugins.image_policy_webhook.ReviewClient") as reviews:
                made = self.make(**settings)
            assert isinstance(made, image_policy_webhook.ImagePolicyWebhook)
            self.assertEqual((reviews.call_args.args[-1], made._allow_ttl, made._deny_ttl), wanted)
        self.make()
