"""Tokens signed by a program behind a socket: what it may answer, keys that come and go, and times without it."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from kapi.authentication.interface import Authenticated, AuthenticationError
from kapi.authentication.service_account.authenticator import ACCOUNTS, BoundTokenAuthenticator
from kapi.authentication.service_account.issuer import RefreshingTokens, SigningError
from kapi.authentication.service_account.metrics import SignerMeter
from kapi.authentication.service_account.signer import ExternalIssuer, ExternalSigner, read_keys
from kapi.endpoints.issuer_discovery import IssuerDiscovery
from kapi.machinery.tree import Object
from kapi.wire.plugin_messages import encode
from tests.authentication.token_signer import TokenSigner, public
from tests.rsa_keys import rsa_key
from tests.waiting import eventually

pytest.importorskip("grpc")

ISSUER = "https://issuer"
ACCOUNT: Object = {"metadata": {"namespace": "ns", "name": "app", "uid": "u"}}


class _Accounts:
    def get(self, namespace: str, name: str) -> Object:
        return ACCOUNT


class _MovedReactor(Clock):
    """The real one, by whose clock nothing happens unless a test says so."""

    def callFromThread(self, call: Any, *arguments: Any) -> None:
        reactor.callFromThread(call, *arguments)  # type: ignore[attr-defined]


class Signers(TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = str(Path(directory.name) / "signer.sock")
        self.program = TokenSigner(f"unix:{self.path}").start()
        self.addCleanup(self.program.stop)
        self.registry = CollectorRegistry()
        self.clock = _MovedReactor()
        self.signer = ExternalSigner(self.clock, self.path, SignerMeter(self.registry))
        self.addCleanup(self.signer.stop)
        self.issuer = ExternalIssuer(ISSUER, self.signer)
        bound = BoundTokenAuthenticator([ISSUER], self.signer.keys, {ACCOUNTS: _Accounts()}, (ISSUER,))  # type: ignore[dict-item]
        self.tokens = RefreshingTokens(bound, self.signer.keys.refresh)

    async def made(self) -> str:
        waiting, _ = self.issuer.issue(ACCOUNT, [ISSUER], 600)
        return await waiting

    async def user(self, token: str) -> str:
        answer: Any = self.tokens.authenticate_token(token)
        if not isinstance(answer, Authenticated):
            answer = await answer
        return str(answer.user.name)

    def ids(self, documents: IssuerDiscovery) -> list[str]:
        ctx: Any = SimpleNamespace(method="GET", header=lambda name: "", drop_response_header=lambda name: None)
        return [key["kid"] for key in json.loads(documents.jwks(ctx).body)["keys"]]

    def metrics(self) -> str:
        return generate_latest(self.registry).decode()

    def test_what_it_signs_is_accepted(self) -> Deferred[None]:
        async def run() -> None:
            await self.signer.start(0)
            self.assertEqual(await self.user(await self.made()), "system:serviceaccount:ns:app")
            self.assertEqual(self.issuer.max_seconds, 7200)
            found = self.metrics()
            for line in (
                'apiserver_externaljwt_sign_request_total{code="OK"} 1.0',
                'apiserver_externaljwt_fetch_keys_request_total{code="OK"} 1.0',
                'apiserver_externaljwt_request_duration_seconds_count{code="OK",method="/v1.ExternalJWTSigner/Sign"} 1.0',
            ):
                self.assertIn(line, found)
            self.assertIn("apiserver_externaljwt_fetch_keys_data_timestamp 1", found)
            self.assertIn("apiserver_externaljwt_fetch_keys_success_timestamp 1", found)

        return ensureDeferred(run())

    def test_a_key_that_came_is_looked_for_and_one_that_went_counts_no_more(self) -> Deferred[None]:
        async def run() -> None:
            await self.signer.start(0)
            old = await self.made()
            await self.user(old)
            documents = IssuerDiscovery(ISSUER, "", "host", self.signer.keys)
            self.assertEqual(self.ids(documents), ["one"])
            claims = json.dumps(
                {
                    "iss": ISSUER, "aud": [ISSUER], "sub": "system:serviceaccount:ns:app", "exp": time.time() + 99,
                    "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "app", "uid": "u"}},
                }
            ).encode()  # fmt: skip
            self.program.rotate("two")
            self.assertEqual(await self.user(self.program.token(claims)), "system:serviceaccount:ns:app")
            self.assertEqual(self.program.calls["FetchKeys"], 2)
            self.assertEqual(self.ids(documents), ["one", "two"])
            await self.user(old)

            del self.program.keys["one"]
            self.clock.advance(3600)
            await eventually(lambda: len(self.signer.keys.keys) == 1)
            with self.assertRaises(AuthenticationError):
                await self.user(old)
            self.assertEqual(self.ids(documents), ["two"])

        return ensureDeferred(run())

    def test_a_new_key_without_another_id_takes_the_place_of_the_old(self) -> Deferred[None]:
        async def run() -> None:
            await self.signer.start(0)
            old = await self.made()
            self.program.rotate("one")
            self.clock.advance(3600)
            await eventually(lambda: self.program.calls["FetchKeys"] == 2 and self.signer.keys.max_age > 0)
            with self.assertRaises(AuthenticationError):
                await self.user(old)
            await self.user(await self.made())

        return ensureDeferred(run())

    def test_keys_are_fetched_again_after_a_month_if_not_earlier(self) -> Deferred[None]:
        async def run() -> None:
            self.program.hint = 366 * 24 * 3600
            await self.signer.start(0)
            self.assertEqual(self.signer.keys.max_age, 30 * 24 * 3600)
            self.program.rotate("two")
            self.clock.advance(30 * 24 * 3600)
            await eventually(lambda: len(self.signer.keys.keys) == 2)

        return ensureDeferred(run())

    def test_keys_are_kept_while_it_fails(self) -> Deferred[None]:
        async def run() -> None:
            await self.signer.start(0)
            token = await self.made()
            self.program.failing = "away"
            self.clock.advance(3600)
            await eventually(lambda: 'code="Internal"} 1.0' in self.metrics())
            await self.user(token)
            with self.assertRaisesRegex(SigningError, "while signing jwt: rpc error: code = Internal desc = away"):
                await self.made()
            self.assertIn('apiserver_externaljwt_sign_request_total{code="Internal"} 1.0', self.metrics())
            self.program.failing = ""
            self.program.rotate("two")
            self.clock.advance(10)
            await eventually(lambda: len(self.signer.keys.keys) == 2)
            self.flushLoggedErrors()

        return ensureDeferred(run())

    def test_headers_it_must_not_make(self) -> Deferred[None]:
        async def run() -> None:
            await self.signer.start(0)
            for header, why in (
                ({"typ": "at+jwt"}, "bad type"),
                ({"typ": None}, "bad type"),
                ({"alg": "HS256"}, 'bad signing algorithm "HS256"'),
                ({"kid": None}, "key id missing"),
                ({"kid": "k" * 1025}, "key id longer than 1 kb"),
                ({"jku": "https://x"}, 'unknown field "jku"'),
                ({"kid": 1}, "object of strings"),
            ):
                self.program.header = header
                with self.assertRaisesRegex(SigningError, f"^while validating header: .*{why}"):
                    await self.made()
            self.program.header = {}
            self.assertIn('apiserver_externaljwt_sign_request_total{code="unknown-non-grpc"} 7.0', self.metrics())
            self.program.rotate("hidden")
            self.program.excluded = {"hidden"}
            with self.assertRaisesRegex(SigningError, "is excluded from OIDC discovery docs"):
                await self.made()
            self.assertEqual(self.ids(IssuerDiscovery(ISSUER, "", "host", self.signer.keys)), ["one"])

        return ensureDeferred(run())

    def test_answers_it_cannot_begin_with(self) -> Deferred[None]:
        key = (1, encode([(1, b"one"), (2, public(self.program.keys["one"]))]))
        at, hint = (2, encode([(1, 1)])), (3, 60)

        async def run() -> None:
            for answer, why in (
                ([key, at], "invalid refresh hint"),
                ([key, at, (3, (1 << 64) - 5)], "invalid refresh hint \\(-5s\\)"),
                ([at, hint], "found no keys"),
                ([key, hint], "invalid data timestamp"),
                ([key, (2, encode([(1, (1 << 64) - 62135596801)])), hint], "invalid data timestamp: -62135596801s"),
                ([key, (2, encode([(1, 253402300800)])), hint], "invalid data timestamp: 253402300800s"),
                ([(1, encode([(2, b"x")])), at, hint], "found invalid public key id"),
                ([(1, encode([(1, b"a")])), at, hint], "found empty public key"),
                ([(1, encode([(1, b"a"), (2, b"x")])), at, hint], "while parsing external public keys"),
            ):
                self.program.answer = encode(answer)
                signer = ExternalSigner(self.clock, self.path, SignerMeter(CollectorRegistry()))
                self.addCleanup(signer.stop)
                with self.assertRaisesRegex(SigningError, why):
                    await signer.start(0)
            for seconds in ((1 << 64) - 62135596800, 253402300799):
                self.program.answer = encode([key, (2, encode([(1, seconds)])), hint])
                signer = ExternalSigner(self.clock, self.path, SignerMeter(CollectorRegistry()))
                self.addCleanup(signer.stop)
                await signer.start(0)

        return ensureDeferred(run())

    def test_what_it_can_sign_bounds_what_may_be_asked_for(self) -> Deferred[None]:
        async def run() -> None:
            with self.assertRaisesRegex(SigningError, "cannot be set longer than .*: 7201s > 7200s"):
                await self.signer.start(7201)
            await self.signer.start(7200)
            self.assertEqual(self.signer.max_seconds, 7200)
            self.program.max_seconds = 300
            with self.assertRaisesRegex(SigningError, r"\(300s\) is less than acceptable \(min 600s\)"):
                await self.signer.start(0)

        return ensureDeferred(run())

    def test_without_it_there_is_no_start(self) -> Deferred[None]:
        async def run() -> None:
            signer = ExternalSigner(self.clock, f"{self.path}.not", SignerMeter(CollectorRegistry()))
            self.addCleanup(signer.stop)
            with self.assertRaisesRegex(SigningError, "while fetching token verification keys: rpc error: code = "):
                await signer.start(0, timeout=0.5)

        return ensureDeferred(run())

    def test_a_name_in_no_file_system(self) -> Deferred[None]:
        name = f"kapi-test-{time.monotonic_ns()}"
        program = TokenSigner(f"unix-abstract:{name}").start()
        self.addCleanup(program.stop)

        async def run() -> None:
            signer = ExternalSigner(self.clock, f"@{name}", SignerMeter(CollectorRegistry()))
            self.addCleanup(signer.stop)
            await signer.start(0)
            self.assertEqual([key.key_id for key in signer.keys.keys], ["one"])

        return ensureDeferred(run())


@pytest.mark.parametrize(
    ("seconds", "nanoseconds", "wanted"),
    [
        (1, 0, 1.0),
        (1, 999_999_999, 1.999999999),
        (1, 1_000_000_000, None),
        (1, -1, None),
        (-1, 1, -0.999999999),
        (0, 1, 1e-9),
    ],
)
def test_the_time_of_keys(seconds: int, nanoseconds: int, wanted: float | None) -> None:
    key = encode([(1, b"k" * 1024), (2, public(rsa_key("one")))])
    at = encode([(1, seconds % (1 << 64)), (2, nanoseconds % (1 << 64))])
    message = encode([(1, key), (2, at), (3, 1)])
    if wanted is not None:
        found = read_keys(message)
        assert (found.data_timestamp, found.refresh_seconds, len(found.keys)) == (wanted, 1, 1)
    else:
        with pytest.raises(SigningError, match=f"^invalid data timestamp: {seconds}s and {nanoseconds}ns$"):
            read_keys(message)
    with pytest.raises(SigningError, match="^found invalid public key id"):
        read_keys(encode([(1, encode([(1, b"k" * 1025), (2, public(rsa_key("one")))])), (2, at), (3, 1)]))
