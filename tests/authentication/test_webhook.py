"""The TokenReview webhook, against a real HTTPS server."""

from __future__ import annotations

import json
import time
from typing import Any
from unittest import mock

import pytest
from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

from kapi.authentication.interface import Authenticated, AuthenticationError
from kapi.authentication.webhook import WebhookTokenAuthenticator
from kapi.client.endpoint_client import EndpointClient
from kapi.client.kubeconfig import Endpoint
from kapi.request.user import UserInfo
from tests.authentication.identities import Authority, HTTPSServer

CA = Authority()


class WebhookTokenTest(TestCase):
    def setUp(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.status: dict[str, Any] = {"authenticated": True, "user": {"username": "jane"}}
        self.server = HTTPSServer(CA, self.answer)
        self.client = EndpointClient(reactor, Endpoint(self.server.url + "/review", ca=CA.pem, token="own-credential"))
        self.now = time.time()
        self.webhook = self.make()

    async def tearDown(self) -> None:
        await self.client.close()
        await self.server.stop()

    def make(self, client: EndpointClient | None = None, **more: Any) -> WebhookTokenAuthenticator:
        return WebhookTokenAuthenticator(
            reactor, client or self.client, version="v1", ttl=120, clock=lambda: self.now, first_delay=0.001, **more
        )

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self.answers:
            code, text = self.answers.pop(0)
            return code, text if isinstance(text, bytes) else json.dumps(text).encode()
        return 200, json.dumps({"status": self.status}).encode()

    async def ask(self, token: str, *audiences: str, webhook: WebhookTokenAuthenticator | None = None) -> Any:
        answer = (webhook or self.webhook).authenticate_token(token, audiences)
        return answer if answer is None or isinstance(answer, Authenticated) else await answer

    async def test_words_are_no_truth_values_and_numbers_no_names(self) -> None:
        """``"false"`` must not let anybody in."""
        for status in (
            {"authenticated": "false"}, {"authenticated": 1}, {"authenticated": ["x"]},
            {"authenticated": True, "user": {"username": 5}}, {"authenticated": True, "user": "jane"},
            {"authenticated": True, "user": {"username": "jane", "groups": "system:masters"}},
            {"authenticated": True, "user": {"username": "jane", "groups": [5]}},
            {"authenticated": True, "user": {"username": "jane", "extra": {"a": "b"}}},
            {"authenticated": True, "user": {"username": "jane"}, "audiences": "x"},
        ):  # fmt: skip
            self.status = {"user": {"username": "jane"}, **status}
            with self.assertRaisesRegex(
                AuthenticationError, r"cannot unmarshal \w+ into Go struct field \w+\.status\..* of type"
            ):
                await self.ask("t")

    async def test_the_question_and_the_user(self) -> None:
        self.status["user"] = {"username": "jane", "uid": "u", "groups": ["a"], "extra": {"Scopes": ["view"]}}
        answer = await self.ask("t")
        self.assertEqual(
            (answer.user.name, answer.user.uid, answer.user.groups, answer.user.extra),
            ("jane", "u", ("a",), {"Scopes": ("view",)}),
        )
        path, body, headers = self.server.calls[0]
        review = json.loads(body)
        self.assertEqual(path, "/review?timeout=30s")
        self.assertEqual((review["apiVersion"], review["spec"]), ("authentication.k8s.io/v1", {"token": "t"}))
        self.assertEqual(headers[b"Authorization"], [b"Bearer own-credential"])

    async def test_answers_are_remembered_for_their_time(self) -> None:
        await self.ask("t")
        await self.ask("t")
        self.assertEqual(len(self.server.calls), 1)
        await self.ask("other")
        self.now += 121
        await self.ask("t")
        self.assertEqual(len(self.server.calls), 3)

    async def test_a_token_nobody_knows(self) -> None:
        self.status = {"authenticated": False}
        self.assertIsNone(await self.ask("t"))
        self.status = {"authenticated": False, "error": "revoked"}
        with self.assertRaises(AuthenticationError) as caught:
            await self.ask("t2")
        self.assertEqual(str(caught.exception), "revoked")

    async def test_it_tries_again_when_the_webhook_is_away(self) -> None:
        self.answers = [(504, b""), (500, b"")]
        answer = await self.ask("t")
        self.assertEqual(answer.user.name, "jane")
        self.assertEqual(len(self.server.calls), 3)

    async def test_it_gives_up_and_lets_nobody_in(self) -> None:
        self.answers = [(500, b"")] * 9
        with self.assertRaises(AuthenticationError):
            await self.ask("t")
        self.assertEqual(len(self.server.calls), 5)

    async def test_a_redirect_is_followed(self) -> None:
        """As by Go's client: the webhook is trusted with the server's credential."""
        self.answers = [(307, (self.server.url + "/elsewhere").encode())]
        self.assertIsNotNone(await self.ask("t"))
        self.assertEqual([call[0] for call in self.server.calls], ["/review?timeout=30s", "/elsewhere"])

    async def test_an_answer_that_is_no_review(self) -> None:
        for text in (b"", b"[]", b'{"status": 7}'):
            self.answers = [(200, text)]
            try:
                answer = await self.ask("t" + repr(text))
            except AuthenticationError:
                continue
            self.assertIsNone(answer)

    async def test_audiences(self) -> None:
        webhook = self.make(api_audiences=("api",))
        answer = await self.ask("t", webhook=webhook)
        self.assertEqual(answer.audiences, ("api",))
        self.assertIsNone(await self.ask("t", "vault", webhook=webhook))
        self.status["audiences"] = ["vault"]
        self.assertEqual((await self.ask("t2", "vault", "x", webhook=webhook)).audiences, ("vault",))
        self.assertIsNone(await self.ask("t3", webhook=webhook))
        self.status = {"authenticated": False, "audiences": ["vault"], "error": "for others"}
        self.assertIsNone(await self.ask("t4", webhook=webhook), "what is for others is none of our business")

    async def test_a_server_with_a_wrong_certificate_is_never_asked(self) -> None:
        client = EndpointClient(reactor, Endpoint(self.server.url, ca=Authority("other").pem))
        with self.assertRaises(AuthenticationError) as caught:
            await self.ask("t", webhook=self.make(client))
        await client.close()
        why = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        self.assertEqual(str(caught.exception), f'Post "{self.server.url}/?timeout=30s": {why}')
        self.assertEqual(self.server.calls, [])

    async def test_a_server_under_another_name_is_never_asked(self) -> None:
        client = EndpointClient(reactor, Endpoint(self.server.url, ca=CA.pem, server_name="webhook.example"))
        with self.assertRaises(AuthenticationError) as caught:
            await self.ask("t", webhook=self.make(client))
        await client.close()
        self.assertIn("certificate is not valid for webhook.example", str(caught.exception))
        self.assertEqual(self.server.calls, [])

    async def test_no_token_is_logged(self) -> None:
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.answers = [(500, b"")] * 9
        try:
            with self.assertRaises(AuthenticationError):
                await self.ask("verysecrettoken")
        finally:
            globalLogPublisher.removeObserver(events.append)
        self.assertNotIn("verysecrettoken", repr(events))
        self.assertNotIn("own-credential", repr(events))


JANE = {"username": "jane", "uid": "1", "groups": ["g"], "extra": {"k": ["v"], "n": None}}


@pytest.mark.parametrize(
    ("status", "asked", "wanted"),
    [
        ({"authenticated": True, "user": JANE}, (), ()), ({"authenticated": True, "user": JANE, "audiences": ["x"]}, (), ()),
        ({"authenticated": True, "user": JANE}, ("api", "b"), ("api",)), ({"authenticated": True, "user": JANE}, ("b",), ""),
        ({"authenticated": True, "user": JANE, "audiences": ["b", "c"]}, ("api", "b"), ("b",)),
        ({"authenticated": True, "user": JANE, "audiences": ["c"]}, ("api", "b"), ""),
        ({"error": "why"}, ("api",), "why"), ({"error": "why"}, ("b",), ""), ({"authenticated": False}, ("api",), ""),
        ({"authenticated": False, "error": "why", "user": JANE}, (), "why"), ({"error": None}, (), ""),
    ],
)  # fmt: skip
def test_what_an_answer_says_for_the_audiences_that_are_asked_for(status: Any, asked: Any, wanted: Any) -> None:
    """Without audiences in the answer the token is for this server's."""
    tokens = WebhookTokenAuthenticator(Clock(), mock.Mock(), api_audiences=("api",))
    found = tokens._outcome_of(status, asked)
    if isinstance(wanted, str):
        assert found == wanted
    else:
        assert isinstance(found, Authenticated)
        user = UserInfo("jane", "1", ("g",), {"k": ("v",), "n": ()})
        assert (found.user, found.audiences) == (user, wanted)


def test_a_user_of_whom_nothing_is_said_has_no_name() -> None:
    tokens = WebhookTokenAuthenticator(Clock(), mock.Mock())
    for status in ({"authenticated": True}, {"authenticated": True, "user": {"groups": None, "extra": None}}):
        found = tokens._outcome_of(status, ())
        assert isinstance(found, Authenticated) and found.user == UserInfo("", "", (), {})
