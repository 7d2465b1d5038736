"""ID tokens against a real HTTPS provider in this process."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase
from twisted.web.http_headers import Headers

from kapi.authentication.interface import Authenticated, AuthenticationError
from kapi.authentication.oidc import ALGORITHMS
from kapi.authentication.oidc.authenticator import OIDCAuthenticator
from kapi.authentication.oidc.configuration import entry_from_flags, validate_entries
from kapi.authentication.oidc.distributed import DistributedClaims
from kapi.authentication.oidc.metrics import JWTMeter
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.service_account.keys import VerificationKey
from kapi.client.endpoint_client import EndpointClient
from kapi.client.kubeconfig import Endpoint
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.meters import hashed
from kapi.machinery.server_id import server_id_hash
from kapi.request.user import CREDENTIAL_ID
from kapi.wire.transport import Response
from tests.authentication.identities import Authority, HTTPSServer
from tests.rsa_keys import rsa_key

CA = Authority()


class OIDCTest(TestCase):
    def setUp(self) -> None:
        self.keys: list[dict[str, Any]] = [VerificationKey.of(rsa_key("issuer").public_key()).jwk()]
        self.server = HTTPSServer(CA, self.answer)
        self.issuer = self.server.url
        self.document: dict[str, Any] = {"issuer": self.issuer, "jwks_uri": self.server.url + "/keys"}
        self.client = EndpointClient(reactor, Endpoint(self.issuer, ca=CA.pem))
        self.seconds = 0.0
        self.pages: dict[str, tuple[int, bytes]] = {}

    async def tearDown(self) -> None:
        await self.client.close()
        await self.server.stop()

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps(self.document).encode()
        if path in self.pages:
            return self.pages[path]
        if path == "/keys":
            return 200, json.dumps({"keys": self.keys}).encode()
        return 404, b""

    def authenticator(self, entry: dict[str, Any] | None = None, **flags: Any) -> OIDCAuthenticator:
        options = {"issuer_url": self.issuer, "client_id": "kapi", **flags}
        entry = entry_from_flags(options) if entry is None else entry
        expressions, errors = validate_entries([entry], [])
        assert not errors, errors
        provider = Provider(self.client, self.issuer, lambda: self.seconds)
        groups = entry["claimMappings"].get("groups", {}).get("claim", "")
        distributed = DistributedClaims(
            groups, self.client, entry["issuer"]["audiences"], ALGORITHMS, time.time, lambda: self.seconds
        )
        return OIDCAuthenticator(
            provider, entry, expressions[0], api_audiences=("api",), distributed=distributed if groups else None
        )

    def token(self, key: Any = None, algorithm: str = "RS256", **claims: Any) -> str:
        key = rsa_key("issuer") if key is None else key
        body = {"iss": self.issuer, "aud": "kapi", "sub": "jane", "exp": int(time.time()) + 60, **claims}
        headers = {"kid": VerificationKey.of(key.public_key()).key_id} if hasattr(key, "public_key") else {}
        return jwt.encode({k: v for k, v in body.items() if v is not None}, key, algorithm=algorithm, headers=headers)

    async def ask(self, authenticator: OIDCAuthenticator, token: str) -> Authenticated | None:
        answer = authenticator.authenticate_token(token)
        return answer if answer is None or isinstance(answer, Authenticated) else await answer

    async def refused(self, authenticator: OIDCAuthenticator, token: str) -> str:
        with self.assertRaises(AuthenticationError) as caught:
            await self.ask(authenticator, token)
        return str(caught.exception)

    async def test_a_good_token(self) -> None:
        oidc = self.authenticator(groups_claim="roles", groups_prefix="g:")
        answer = await self.ask(oidc, self.token(roles=["a", "b"], jti="t1"))
        assert answer is not None
        self.assertEqual(answer.user.name, f"{self.issuer}#jane")
        self.assertEqual(answer.user.groups, ("g:a", "g:b"))
        self.assertEqual(answer.user.extra, {"authentication.kubernetes.io/credential-id": ("JTI=t1",)})
        self.assertEqual(answer.audiences, ("api",))

    async def test_one_group_as_a_string_and_no_prefix(self) -> None:
        oidc = self.authenticator(groups_claim="role", username_prefix="-")
        answer = await self.ask(oidc, self.token(role="a"))
        assert answer is not None
        self.assertEqual((answer.user.name, answer.user.groups), ("jane", ("a",)))

    async def test_tokens_of_others_are_not_ours(self) -> None:
        oidc = self.authenticator()
        self.assertIsNone(await self.ask(oidc, self.token(iss="https://other.example")))
        self.assertIsNone(await self.ask(oidc, "no.jwt.atall"))
        self.assertEqual(self.server.calls, [])

    async def test_bad_tokens(self) -> None:
        oidc = self.authenticator(required_claims={"hd": "example.org"})
        good = {"hd": "example.org"}
        self.assertIn("expired", await self.refused(oidc, self.token(exp=int(time.time()) - 5, **good)))
        self.assertIn("expired", await self.refused(oidc, self.token(exp=None, **good)))
        self.assertIn("audience", await self.refused(oidc, self.token(aud="other", **good)))
        self.assertIn("not before", await self.refused(oidc, self.token(nbf=int(time.time()) + 900, **good)))
        self.assertIn("not present", await self.refused(oidc, self.token()))
        self.assertIn("does not match", await self.refused(oidc, self.token(hd="evil.org")))
        self.assertIn("username claims", await self.refused(oidc, self.token(sub=None, **good)))

    async def test_an_algorithm_that_is_no_text_is_refused(self) -> None:
        _, body, signature = self.token().split(".")
        for algorithm in ([], {}, ["RS256"], None):
            head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).rstrip(b"=").decode()
            text = await self.refused(self.authenticator(), f"{head}.{body}.{signature}")
            self.assertIn("unexpected signature algorithm", text)

    async def test_forged_signatures(self) -> None:
        oidc = self.authenticator()
        self.assertIn("signature", await self.refused(oidc, self.token(key=rsa_key("other"))))
        unsigned = jwt.encode({"iss": self.issuer, "aud": "kapi", "sub": "x", "exp": 9e9}, "", algorithm="none")
        self.assertIn("algorithm", await self.refused(oidc, unsigned))
        secret = self.token(key="shared-secret-of-at-least-32-bytes-length", algorithm="HS256")
        self.assertIn("algorithm", await self.refused(oidc, secret))
        head, _, signature = self.token().split(".")
        _, body, _ = self.token(sub="root").split(".")
        self.assertIn("signature", await self.refused(oidc, f"{head}.{body}.{signature}"))

    async def test_keys_rotate_but_a_flood_of_unknown_ones_does_not_reach_the_provider(self) -> None:
        oidc = self.authenticator()
        await self.ask(oidc, self.token())
        self.keys = [VerificationKey.of(rsa_key("other").public_key()).jwk()]
        self.seconds = 60.0
        answer = await self.ask(oidc, self.token(key=rsa_key("other")))
        assert answer is not None
        calls = len(self.server.calls)
        for _ in range(5):
            await self.refused(oidc, self.token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"))
        self.assertEqual(len(self.server.calls), calls)

    async def test_a_new_key_may_have_the_id_of_the_old_one_or_none(self) -> None:
        """As upstream, keys are fetched again when the signature of a token fails."""
        oidc = self.authenticator()
        await self.ask(oidc, self.token())
        known = self.keys[0]["kid"]
        self.keys = [{**VerificationKey.of(rsa_key("other").public_key()).jwk(), "kid": known}]
        self.seconds = 60.0
        claims = {"iss": self.issuer, "aud": "kapi", "sub": "joe", "exp": int(time.time()) + 60}
        renewed = jwt.encode(claims, rsa_key("other"), algorithm="RS256", headers={"kid": known})
        self.assertIsNotNone(await self.ask(oidc, renewed))
        self.keys = [VerificationKey.of(rsa_key("issuer").public_key()).jwk()]
        del self.keys[0]["kid"]
        self.seconds = 120.0
        unnamed = jwt.encode(claims, rsa_key("issuer"), algorithm="RS256")
        self.assertIsNotNone(await self.ask(oidc, unnamed))
        calls = len(self.server.calls)
        for number in range(5):
            await self.refused(oidc, jwt.encode({**claims, "jti": str(number)}, rsa_key("other"), algorithm="RS256"))
        self.assertEqual(len(self.server.calls), calls)

    async def test_a_token_waits_for_one_fetch(self) -> None:
        """While a provider hangs, each takes half a minute; who forges tokens would hold connections for as long as two."""
        oidc = self.authenticator()
        await self.ask(oidc, self.token())
        self.seconds = 60.0
        request, asked = self.client.request, []

        async def slow(*arguments: Any, **more: Any) -> Any:
            asked.append(arguments)
            self.seconds += 30.0
            return await request(*arguments, **more)

        self.patch(self.client, "request", slow)
        await self.refused(oidc, self.token(key=rsa_key("other")))
        self.assertEqual(len(asked), 1)

    async def test_a_key_set_that_is_not_got_is_a_failure_in_metrics(self) -> None:
        registry = CollectorRegistry()
        provider = Provider(
            self.client, self.issuer, lambda: self.seconds, meter=JWTMeter(registry, clock=lambda: self.seconds)
        )
        which = {"jwt_issuer_hash": hashed(self.issuer), "apiserver_id_hash": server_id_hash()}
        name = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_"
        for page in ((503, b""), (200, b"no json")):
            self.seconds += 10
            self.pages["/keys"] = page
            await provider.refresh()
            value = registry.get_sample_value(name + "timestamp_seconds", {**which, "result": "failure"})
            self.assertEqual(value, self.seconds)
        self.pages.clear()
        self.seconds += 10
        await provider.refresh()
        value = registry.get_sample_value(name + "timestamp_seconds", {**which, "result": "success"})
        self.assertEqual(value, self.seconds)
        keys = hashed(self.answer("/keys", b"")[1])
        self.assertEqual(registry.get_sample_value(name + "key_set_info", {**which, "hash": keys}), 1)

    async def test_how_long_it_takes_is_counted_from_a_millisecond_to_ten_seconds(self) -> None:
        registry = CollectorRegistry()
        meter = JWTMeter(registry)
        await meter.verifying(self.issuer, succeed(None))
        (family,) = (family for family in registry.collect() if family.name.endswith("_latency_seconds"))
        bounds = [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]
        wanted = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf"
        self.assertEqual(bounds, wanted.split())

    async def test_a_client_that_hangs_up_takes_the_keys_from_nobody(self) -> None:
        gate: Deferred[None] = Deferred()
        request, waiting = self.client.request, []

        async def held(*arguments: Any, **more: Any) -> Any:
            waiting.append(arguments)
            await gate
            return await request(*arguments, **more)

        self.patch(self.client, "request", held)
        oidc = self.authenticator()
        first = Deferred.fromCoroutine(self.ask(oidc, self.token(sub="first")))
        second = Deferred.fromCoroutine(self.ask(oidc, self.token()))
        first.cancel()
        await self.assertFailure(first, CancelledError)
        self.assertEqual(len(waiting), 1)
        gate.callback(None)
        answer = await second
        assert answer is not None
        self.assertEqual(answer.user.name, f"{self.issuer}#jane")

    def test_who_has_the_keys_may_end_another_who_waits_and_fetch_again(self) -> None:
        asked: list[Deferred[bytes]] = []

        def request(method: str, url: str) -> Deferred[bytes]:
            asked.append(Deferred())
            return asked[-1]

        self.patch(self.client, "request", request)
        provider = Provider(self.client, "https://issuer", lambda: 0.0)
        first, second, third = (Deferred.fromCoroutine(provider.refresh()) for _ in range(3))

        def ended(_: None) -> None:
            Deferred.fromCoroutine(provider.refresh())
            second.cancel()

        again = first.addCallback(ended)
        asked[0].errback(OSError())
        self.successResultOf(again)
        self.failureResultOf(second, CancelledError)
        self.successResultOf(third)
        asked[1].errback(OSError())

    async def test_a_key_that_is_none_costs_only_itself(self) -> None:
        good = self.keys[0]
        kid = {"kid": "broken"}
        broken: list[Any] = [
            None, 5, {"kty": "RSA", **kid}, {**good, **kid, "n": 5}, {**good, **kid, "n": "AQ"}, {**good, **kid, "e": "AA"},
            {**good, **kid, "alg": 5}, {**good, **kid, "alg": "RSA-OAEP"}, {**good, "kid": []},
            {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", **kid},
        ]  # fmt: skip
        self.keys = [*broken, good]
        oidc = self.authenticator()
        self.assertIsNotNone(await self.ask(oidc, self.token()))
        claims = {"iss": self.issuer, "aud": "kapi", "sub": "joe", "exp": int(time.time()) + 60}
        self.assertIsNotNone(await self.ask(oidc, jwt.encode(claims, rsa_key("issuer"), algorithm="RS256")))
        forged = jwt.encode(claims, rsa_key("other"), algorithm="RS256", headers=kid)
        self.assertIn("signature", await self.refused(oidc, forged))

    async def test_of_many_keys_only_those_in_use_are_made(self) -> None:
        """A set of thousands would hold the reactor; a token without a key id tries them in slices."""
        made = []
        make = jwt.PyJWK
        self.patch(jwt, "PyJWK", lambda *arguments, **more: made.append(arguments) or make(*arguments, **more))
        self.keys = [{**self.keys[0], "kid": f"k{number}"} for number in range(100)] + self.keys
        oidc = self.authenticator()
        await self.ask(oidc, self.token())
        self.assertEqual(len(made), 1)
        claims = {"iss": self.issuer, "aud": "kapi", "sub": "joe", "exp": int(time.time()) + 60}
        running: Any = oidc.authenticate_token(jwt.encode(claims, rsa_key("other"), algorithm="RS256"))
        self.assertIs(running.send(None), in_slices)
        with self.assertRaises(AuthenticationError):
            running.send(None)

    async def test_expressions_run_in_slices(self) -> None:
        """Their cost grows with the claims: a member of 400 groups needs a second for ``all`` in ``all``."""
        entry = entry_from_flags({"issuer_url": self.issuer, "client_id": "kapi"})
        entry["claimValidationRules"] = [{"expression": "claims.sub != 'root'"}]
        oidc = self.authenticator(entry)
        await self.ask(oidc, self.token())
        running: Any = oidc.authenticate_token(self.token(sub="joe"))
        self.assertIs(running.send(None), in_slices)
        with self.assertRaises(StopIteration):
            running.send(None)

    async def test_registered_claims_have_their_types(self) -> None:
        """As upstream decodes them; a time may be a number in quotes."""
        oidc = self.authenticator(username_claim="name", groups_claim="roles")
        for wrong in (
            {"nbf": "soon"}, {"nbf": [1]}, {"nbf": True}, {"iat": "x"}, {"iat": {}}, {"aud": ["kapi", 1]}, {"sub": 5},
            {"exp": 10**30}, {"exp": 1e300}, {"exp": "1_000_000_000_000"}, {"exp": "inf"}, {"nonce": 1}, {"at_hash": []},
            {"_claim_names": ["roles"]}, {"_claim_names": {"roles": ["src"]}, "_claim_sources": {"src": {}}},
            {"_claim_names": {"roles": 5}}, {"_claim_sources": []}, {"_claim_sources": {"src": {"endpoint": 5}}},
        ):  # fmt: skip
            self.assertIn("unmarshal", await self.refused(oidc, self.token(name="joe", **wrong)), wrong)
        for right in ({"exp": str(int(time.time()) + 60)}, {"nbf": "1.5e3"}, {"iat": 9e9}, {"nbf": -(2.0**63)}):
            self.assertIsNotNone(await self.ask(oidc, self.token(name="joe", **right)), right)

    async def test_no_groups_may_be_null(self) -> None:
        oidc = self.authenticator(groups_claim="roles", groups_prefix="g:")
        body = {"iss": self.issuer, "aud": "kapi", "sub": "jane", "exp": int(time.time()) + 60}
        for roles, groups in ((None, ()), (["a", None], ("g:a", "g:"))):
            answer = await self.ask(oidc, jwt.encode({**body, "roles": roles}, rsa_key("issuer"), algorithm="RS256"))
            assert answer is not None
            self.assertEqual(answer.user.groups, groups)

    async def test_a_verified_token_is_remembered_but_not_beyond_its_expiry(self) -> None:
        now = [time.time()]
        entry = entry_from_flags({"issuer_url": self.issuer, "client_id": "kapi"})
        provider = Provider(self.client, self.issuer, lambda: self.seconds)
        oidc = OIDCAuthenticator(provider, entry, validate_entries([entry], [])[0][0], clock=lambda: now[0])
        token = self.token(exp=int(now[0]) + 5)
        await self.ask(oidc, token)
        self.assertIsInstance(oidc.authenticate_token(token), Authenticated)
        now[0] += 6
        self.assertIn("expired", await self.refused(oidc, token))

    async def test_elliptic_curve_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.keys = [VerificationKey.of(key.public_key()).jwk()]
        answer = await self.ask(self.authenticator(), self.token(key=key, algorithm="ES256"))
        assert answer is not None

    async def test_a_provider_that_lies_about_its_issuer(self) -> None:
        self.document["issuer"] = "https://evil.example"
        oidc = self.authenticator()
        self.assertIn("not initialized", await self.refused(oidc, self.token()))
        self.assertIn("issuer did not match", oidc.provider.problem)

    async def test_an_issuer_that_cannot_be_reached_is_told_as_go_tells_it(self) -> None:
        gone = HTTPSServer(CA, self.answer)
        await gone.stop()
        provider = Provider(self.client, gone.url, lambda: self.seconds)
        await provider.refresh()
        document, address = f"{gone.url}/.well-known/openid-configuration", gone.url.removeprefix("https://")
        why = f'oidc: Get "{document}": dial tcp {address}: connect: connection refused'
        self.assertEqual(provider.problem, why)

    async def test_a_provider_with_a_certificate_of_another_authority(self) -> None:
        client = EndpointClient(reactor, Endpoint(self.issuer, ca=Authority("other").pem))
        provider = Provider(client, self.issuer, lambda: self.seconds)
        await provider.refresh()
        await client.close()
        self.assertTrue(provider.problem)
        self.assertEqual(self.server.calls, [])

    async def test_email_must_not_be_unverified(self) -> None:
        oidc = self.authenticator(username_claim="email")
        answer = await self.ask(oidc, self.token(email="j@example.org", email_verified=True))
        assert answer is not None
        self.assertEqual(answer.user.name, "j@example.org")
        self.assertIn("not verified", await self.refused(oidc, self.token(email="j@example.org", email_verified=False)))

    async def test_groups_kept_elsewhere(self) -> None:
        oidc = self.authenticator(groups_claim="roles")
        source = {"endpoint": f"{self.server.url}/groups", "access_token": "for-groups"}
        elsewhere = {"_claim_names": {"roles": "src"}, "_claim_sources": {"src": source}}
        self.pages["/groups"] = (201, self.token(roles=["a", "b"]).encode())
        answer = await self.ask(oidc, self.token(**elsewhere))
        assert answer is not None
        self.assertEqual(answer.user.groups, ("a", "b"))
        sent = [headers.get(b"Authorization") for path, _, headers in self.server.calls if path == "/groups"]
        self.assertEqual(sent, [[b"Bearer for-groups"]])

    async def test_groups_that_come_along_are_nobodys_word(self) -> None:
        """An aggregated claim is signed by an issuer that no administrator named."""
        oidc = self.authenticator(groups_claim="roles")
        source = {"JWT": self.token(roles=["root"])}
        answer = await self.ask(oidc, self.token(_claim_names={"roles": "src"}, _claim_sources={"src": source}))
        assert answer is not None
        self.assertEqual(answer.user.groups, ())

    async def test_groups_kept_elsewhere_must_be_signed_and_reachable(self) -> None:
        oidc = self.authenticator(groups_claim="roles")
        source = {"endpoint": f"{self.server.url}/groups"}
        elsewhere = {"_claim_names": {"roles": "src"}, "_claim_sources": {"src": source}}
        for number, page in enumerate(
            ((200, self.token(key=rsa_key("other"), roles=["root"]).encode()), (200, b"none"), (404, b""), (302, b"/x"))
        ):
            self.pages["/groups"] = page
            await self.refused(oidc, self.token(jti=str(number), **elsewhere))
        source["endpoint"] = "http://169.254.169.254/latest"
        self.assertIn("no https URL", await self.refused(oidc, self.token(jti="9", **elsewhere)))
        source["endpoint"] = "https://127.0.0.1:99999/"
        self.assertIn("Port out of range", await self.refused(oidc, self.token(jti="10", **elsewhere)))
        gone = HTTPSServer(CA, lambda path, body: None)
        await gone.stop()
        source["endpoint"] = f"{gone.url}/groups"
        why = await self.refused(oidc, self.token(jti="11", **elsewhere))
        self.assertRegex(why, r'distributed claims: Get "https://.*/groups": dial tcp .*connection refused')

    async def test_expressions(self) -> None:
        entry = {
            "issuer": {"url": self.issuer, "audiences": ["a", "kapi"], "audienceMatchPolicy": "MatchAny"},
            "claimMappings": {
                "username": {"expression": "claims.sub + '@' + claims.tenant"},
                "groups": {"expression": "claims.roles.split(',')"},
                "uid": {"expression": "claims.id"},
                "extra": [{"key": "example.org/tenant", "valueExpression": "claims.tenant"}],
            },
            "claimValidationRules": [{"expression": "claims.tenant != 'evil'", "message": "not evil"}],
            "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "reserved"}],
        }
        oidc = self.authenticator(entry)
        answer = await self.ask(oidc, self.token(tenant="t", roles="a,b", id="u1"))
        assert answer is not None
        self.assertEqual((answer.user.name, answer.user.groups, answer.user.uid), ("jane@t", ("a", "b"), "u1"))
        self.assertEqual(answer.user.extra, {"example.org/tenant": ("t",)})
        self.assertIn("not evil", await self.refused(oidc, self.token(tenant="evil", roles="a", id="u")))
        self.assertIn("reserved", await self.refused(oidc, self.token(sub="system:x", tenant="t", roles="a", id="u")))
        self.assertIn("username claim", await self.refused(oidc, self.token(roles="a", id="u")))

    async def test_what_claims_make_of_a_user(self) -> None:
        """The mappings and the claims; then (name, groups, uid, extra), or why there is no user."""
        name = {"claim": "sub", "prefix": "p:"}
        tenant = {"extra": [{"key": "a.io/t", "valueExpression": "claims.t"}]}
        provider = Provider(self.client, self.issuer, lambda: self.seconds)
        for number, (mappings, claims, found) in enumerate((
            ({"username": name}, {}, ("p:jane", (), "", {})),
            ({"username": name}, {"jti": "j"}, ("p:jane", (), "", {CREDENTIAL_ID: ("JTI=j",)})),
            ({"username": name}, {"jti": ""}, ("p:jane", (), "", {})),
            ({"username": {"claim": "n", "prefix": ""}}, {"n": 5}, 'parse username claims "n": claim not present'),
            ({"username": {"claim": "n", "prefix": ""}}, {}, 'parse username claims "n": claim not present'),
            ({"username": {"expression": "claims.n"}}, {"n": ""}, "empty username via CEL expression is not allowed"),
            ({"username": {"expression": "claims.n"}}, {"n": [1]},
             "error evaluating username claim expression: username claim expression must return a string"),
            ({"username": {"expression": "claims.n"}}, {}, "error evaluating username claim expression: expression 'claims.n' "
             "resulted in error: no such key: n"),
            ({"username": name, "groups": {"claim": "g", "prefix": "g:"}}, {"g": "a"}, ("p:jane", ("g:a",), "", {})),
            ({"username": name, "groups": {"claim": "g", "prefix": "g:"}}, {"g": ""}, ("p:jane", ("g:",), "", {})),
            ({"username": name, "groups": {"claim": "g", "prefix": "g:"}}, {}, ("p:jane", (), "", {})),
            ({"username": name, "groups": {"claim": "g", "prefix": ""}}, {"g": 5},
             'parse groups claim "g": not a string or list of strings'),
            ({"username": name, "groups": {"claim": "g", "prefix": ""}}, {"g": ["a", 5]},
             'parse groups claim "g": not a string or list of strings'),
            ({"username": name, "groups": {"expression": "claims.g"}}, {"g": "a"}, ("p:jane", ("a",), "", {})),
            ({"username": name, "groups": {"expression": "claims.g"}}, {"g": ""}, ("p:jane", (), "", {})),
            ({"username": name, "groups": {"expression": "claims.g"}}, {"g": None}, ("p:jane", (), "", {})),
            ({"username": name, "groups": {"expression": "claims.g"}}, {"g": ["a", "", "b"]}, ("p:jane", ("a", "b"), "", {})),
            ({"username": name, "groups": {"expression": "claims.g"}}, {"g": ["a", 1]},
             "error evaluating group claim expression: expression must return a string or a list of strings"),
            ({"username": name, "uid": {"claim": "u"}}, {"u": "1"}, ("p:jane", (), "1", {})),
            ({"username": name, "uid": {"claim": "u"}}, {}, 'parse uid claim "u": claim not present'),
            ({"username": name, "uid": {"claim": "u"}}, {"u": 1}, 'parse uid claim "u": claim not present'),
            ({"username": name, "uid": {"expression": "claims.u"}}, {"u": "2"}, ("p:jane", (), "2", {})),
            ({"username": name, "uid": {"expression": "claims.u"}}, {"u": 2},
             "error evaluating uid claim expression: uid claim expression must return a string"),
            ({"username": name, **tenant}, {"t": ["x", "y"]}, ("p:jane", (), "", {"a.io/t": ("x", "y")})),
            ({"username": name, **tenant}, {"t": "", "jti": "j"}, ("p:jane", (), "", {CREDENTIAL_ID: ("JTI=j",)})),
            ({"username": name, **tenant}, {"t": 5},
             "error evaluating extra claim expression: expression must return a string or a list of strings"),
            ({"username": name, "rules": [{"claim": "a", "requiredValue": "b"}]}, {"a": "b"}, ("p:jane", (), "", {})),
            ({"username": name, "rules": [{"claim": "a", "requiredValue": "b"}]}, {"a": "c"},
             "required claim a value does not match. Got = c, want = b"),
            ({"username": name, "rules": [{"claim": "a", "requiredValue": "b"}]}, {},
             "required claim a not present in ID token"),
            ({"username": name, "rules": [{"claim": "a"}]}, {"a": ""}, ("p:jane", (), "", {})),
            ({"username": name, "rules": [{"expression": "claims.a == 'b'", "message": "no"}]}, {"a": "c"},
             "error evaluating claim validation expression: validation expression 'claims.a == 'b'' failed: no"),
            ({"username": name, "groups": {"claim": "g", "prefix": ""}, "uid": {"claim": "u"}, **tenant, "users": [
                {"expression": "user.groups == ['a'] && user.uid == '1' && user.extra['a.io/t'] == ['x']"},
                {"expression": "user.username == 'p:jane'"},
            ]}, {"g": "a", "u": "1", "t": "x"}, ("p:jane", ("a",), "1", {"a.io/t": ("x",)})),
            ({"username": name, "users": [{"expression": "user.uid != \"\"", "message": "no"}]}, {},
             "error evaluating user info validation rule: validation expression 'user.uid != \"\"' failed: no"),
        )):  # fmt: skip
            entry: dict[str, Any] = {
                "issuer": {"url": self.issuer, "audiences": ["kapi"]}, "claimValidationRules": mappings.pop("rules", []),
                "userValidationRules": mappings.pop("users", []), "claimMappings": mappings,
            }  # fmt: skip
            expressions, errors = validate_entries([entry], [])
            self.assertEqual(errors, [])
            oidc = OIDCAuthenticator(provider, entry, expressions[0])
            token = self.token(**claims, n0=number) if None not in claims.values() else jwt.encode(
                {"iss": self.issuer, "aud": "kapi", "sub": "jane", "exp": int(time.time()) + 60, **claims},
                rsa_key("issuer"), algorithm="RS256",
            )  # fmt: skip
            if isinstance(found, str):
                self.assertEqual(await self.refused(oidc, token), f"oidc: {found}")
            else:
                answer = await self.ask(oidc, token)
                assert answer is not None
                user = answer.user
                self.assertEqual((user.name, user.groups, user.uid, user.extra), found, (mappings, claims))

    async def test_expressions_write_names_of_claims_with_escapes(self) -> None:
        """A key that is no name in CEL is written with ``__dot__``, ``__dash__``, ``__slash__`` and ``__underscores__``."""
        extra = [{"key": "example.org/a-b", "valueExpression": "claims.list[0].a__dash__b"}]
        entry = {
            "issuer": {"url": self.issuer, "audiences": ["kapi"]},
            "claimMappings": {
                "username": {"expression": "claims.example__dot__org__slash__user.name__underscores__x"},
                "groups": {"expression": "dyn(claims.list).map(item, item['a__dash__b'])"},
                "uid": {"expression": "claims.?__namespace__.orValue('none')"},
                "extra": extra,
            },
            "claimValidationRules": [
                {"expression": "has(claims.list[0].a__dash__b) && !has(claims.list[0].a__dot__b)"},
                {"expression": "claims.all(name, value, value != 'evil')"},
            ],
            "userValidationRules": [
                {"expression": "user.extra.example__dot__org__slash__a__dash__b == ['g']", "message": "no g"}
            ],
        }
        oidc = self.authenticator(entry)
        claims: dict[str, Any] = {"example.org/user": {"name__x": "jane"}, "list": [{"a-b": "g"}], "a__dot__b": 1}
        answer = await self.ask(oidc, self.token(namespace="n", **claims))
        assert answer is not None
        self.assertEqual((answer.user.name, answer.user.groups, answer.user.uid), ("jane", ("g",), "n"))
        claims["list"] = [{"a-b": "h"}]
        self.assertEqual(
            await self.refused(oidc, self.token(**claims)),
            "oidc: error evaluating user info validation rule: validation expression "
            "'user.extra.example__dot__org__slash__a__dash__b == ['g']' failed: no g",
        )
        claims["list"] = [{"a__dash__b": "g"}]
        self.assertEqual(
            await self.refused(oidc, self.token(**claims)),
            "oidc: error evaluating group claim expression: expression "
            "'dyn(claims.list).map(item, item['a__dash__b'])' resulted in error: no such key: a__dash__b",
        )


class Asked:
    """Stands for an EndpointClient; ``answers`` are the documents of the next requests, None: no answer."""

    def __init__(self, *answers: dict[str, str] | None) -> None:
        self.answers = list(answers)
        self.urls: list[str] = []
        self.given_up = 0

    async def request(self, method: str, url: str) -> Response:
        self.urls.append(url)
        document = self.answers.pop(0)
        if document is None:
            await Deferred(self._cancelled)
        return Response(200, Headers(), json.dumps(document).encode())

    def _cancelled(self, _: Deferred[None]) -> None:
        self.given_up += 1

    def close(self) -> Deferred[list[None]]:
        return succeed([])


def test_an_issuer_is_looked_for_until_it_is_found_before_any_token_comes() -> None:
    """The keys are for the first token."""
    issuer = "https://issuer"
    clock, asked = Clock(), Asked({"issuer": "https://another"}, {"issuer": issuer, "jwks_uri": f"{issuer}/keys"})
    provider = Provider(cast(EndpointClient, asked), issuer, clock.seconds)
    provider.begin(clock)
    assert len(asked.urls) == 1
    clock.advance(9)
    assert len(asked.urls) == 1
    clock.pump([1, 10, 10])
    assert asked.urls == [f"{issuer}/.well-known/openid-configuration"] * 2
    assert not clock.getDelayedCalls() and not provider.ready


def test_the_search_for_an_issuer_ends_when_it_is_left() -> None:
    clock, asked = Clock(), Asked(None, None)
    provider = Provider(cast(EndpointClient, asked), "https://issuer", clock.seconds)
    provider.begin(clock)
    provider.leave()
    clock.advance(10)
    assert (len(asked.urls), asked.given_up, clock.getDelayedCalls()) == (1, 1, [])


BOTH = "claim and expression can't both be set"
NEITHER = "Required value: claim or expression is required"
RESERVED = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"


def errors_of(*entries: dict[str, Any]) -> list[str]:
    """Without ``jwt[0].``, where nothing else is said."""
    _, errors = validate_entries(list(entries), ["https://own", "https://also"])
    return [str(error).removeprefix("jwt[0].") for error in errors]


@pytest.mark.parametrize(
    ("issuer", "texts"),
    [
        ({"url": ""}, ["url: Required value"]),
        ({"url": "https://own"}, ['url: Invalid value: "https://own": URL must not overlap with disallowed issuers: '
                                  "[https://also https://own]"]),
        ({"url": "http://a"}, ['url: Invalid value: "http://a": URL scheme must be https']),
        ({"url": "https://u@a"}, ['url: Invalid value: "https://u@a": URL must not contain a username or password']),
        ({"url": "https://a?x=1"}, ['url: Invalid value: "https://a?x=1": URL must not contain a query']),
        ({"url": "https://a?"}, []),
        ({"url": "https://a#x"}, ['url: Invalid value: "https://a#x": URL must not contain a fragment']),
        ({"discoveryURL": "https://a/"}, ['discoveryURL: Invalid value: "https://a/": discoveryURL must be different from URL']),
        ({"discoveryURL": "https://own"}, []),
        ({"discoveryURL": "http://u@b?x#y"}, [f'discoveryURL: Invalid value: "http://u@b?x#y": {why}' for why in (
            "URL scheme must be https", "URL must not contain a username or password", "URL must not contain a query",
            "URL must not contain a fragment")]),
        ({"audiences": []}, ["audiences: Required value: at least one jwt[0].issuer.audiences is required"]),
        ({"audiences": [], "audienceMatchPolicy": "x"},
         ["audiences: Required value: at least one jwt[0].issuer.audiences is required"]),
        ({"audiences": [""]}, ["audiences[0]: Required value"]),
        ({"audiences": ["x", "y", "x"], "audienceMatchPolicy": "MatchAny"}, ['audiences[2]: Duplicate value: "x"']),
        ({"audienceMatchPolicy": "MatchAny"}, []),
        ({"audienceMatchPolicy": "All"}, ['audienceMatchPolicy: Invalid value: "All": audienceMatchPolicy must be empty or '
                                          "MatchAny for single audience"]),
        ({"audiences": ["x", "y"]}, ['audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple '
                                     "audiences"]),
        ({"certificateAuthority": "x"}, ['certificateAuthority: Invalid value: "<omitted>": data does not contain any valid '
                                         "RSA or ECDSA certificates"]),
        ({"certificateAuthority": CA.pem.decode(), "egressSelectorType": "cluster"}, []),
    ],
)  # fmt: skip
def test_an_issuer_that_is_configured_wrongly(issuer: dict[str, Any], texts: list[str]) -> None:
    entry = {
        "issuer": {"url": "https://a", "audiences": ["x"], **issuer},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    }
    assert errors_of(entry) == [f"issuer.{text}" for text in texts]


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        ({"username": {}}, [f"claimMappings.username: {NEITHER}"]),
        ({"username": {"claim": "a"}}, ["claimMappings.username.prefix: Required value: prefix is required when claim is set. "
                                        "It can be set to an empty string to disable prefixing"]),
        ({"username": {"claim": "a", "expression": "b"}}, [f'claimMappings.username: Invalid value: "": {BOTH}']),
        ({"groups": {"claim": "a", "expression": "b", "prefix": ""}}, [f'claimMappings.groups: Invalid value: "": {BOTH}']),
        ({"groups": {"claim": "a", "prefix": ""}, "uid": {"claim": "u"}}, []),
        ({"uid": {"claim": "a", "expression": "b"}}, [f'claimMappings.uid: Invalid value: "": {BOTH}']),
        ({"extra": [{"key": "Foo.io/x", "valueExpression": "'a'"}]},
         ['claimMappings.extra[0].key: Invalid value: "Foo.io": a lowercase RFC 1123 subdomain must consist of lower case '
          "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
          "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
          'claimMappings.extra[0].key: Invalid value: "Foo.io/x": must be lowercase']),
        ({"extra": [{"key": key, "valueExpression": "'a'"} for key in ("k8s.io/a", "a.kubernetes.io/a", "notk8s.io/a")]},
         [f'claimMappings.extra[0].key: Invalid value: "k8s.io/a": {RESERVED}',
          f'claimMappings.extra[1].key: Invalid value: "a.kubernetes.io/a": {RESERVED}']),
        ({"extra": [{"key": "a.io/a", "valueExpression": "'a'"}] * 2}, ['claimMappings.extra[1].key: Duplicate value: "a.io/a"']),
        ({"extra": [{"key": "a.io/a"}, {"key": "b.io/b"}]},
         [f"claimMappings.extra[{n}].valueExpression: Required value" for n in range(2)]),
        ({"rules": [{}]}, [f"claimValidationRules[0]: {NEITHER}"]),
        ({"rules": [{"claim": "a", "expression": "b"}]}, [f'claimValidationRules[0]: Invalid value: "a": {BOTH}']),
        ({"rules": [{"claim": "a", "message": "b"}, {"claim": "a", "requiredValue": "c"}, {"claim": "b"}]},
         ['claimValidationRules[0].message: Invalid value: "b": may not be specified when claim is set',
          'claimValidationRules[1].claim: Duplicate value: "a"']),
        ({"rules": [{"expression": "true", "requiredValue": "c"}, {"expression": "true"}, {"expression": "1 + 1"}]},
         ['claimValidationRules[0].requiredValue: Invalid value: "c": may not be specified when expression is set',
          'claimValidationRules[1].expression: Duplicate value: "true"',
          'claimValidationRules[2].expression: Invalid value: "1 + 1": must evaluate to bool']),
        ({"users": [{}, {"expression": "true"}, {"expression": "true"}, {"expression": "user.username"}]},
         ["userValidationRules[0].expression: Required value", 'userValidationRules[2].expression: Duplicate value: "true"',
          'userValidationRules[3].expression: Invalid value: "user.username": must evaluate to bool']),
    ],
)  # fmt: skip
def test_mappings_and_rules_that_are_configured_wrongly(more: dict[str, Any], texts: list[str]) -> None:
    rules = {"claimValidationRules": more.pop("rules", []), "userValidationRules": more.pop("users", [])}
    mappings = {"username": {"claim": "sub", "prefix": ""}, **more}
    assert errors_of({"issuer": {"url": "https://a", "audiences": ["x"]}, "claimMappings": mappings, **rules}) == texts


def test_issuers_that_are_configured_twice() -> None:
    one: dict[str, Any] = entry_from_flags({"issuer_url": "https://a", "client_id": "x"})
    one["issuer"]["discoveryURL"] = "https://b"
    other = entry_from_flags({"issuer_url": "https://c", "client_id": "x"})
    other["issuer"]["discoveryURL"] = "https://b"
    assert errors_of(one, other) == ['jwt[1].issuer.discoveryURL: Duplicate value: "https://b"']
    assert errors_of(*[entry_from_flags({"issuer_url": "https://a", "client_id": "x"})] * 3) == [
        f'jwt[{number}].issuer.url: Duplicate value: "https://a"' for number in (1, 2)
    ]


@pytest.mark.parametrize(
    ("flags", "mappings"),
    [
        ({}, {"username": {"claim": "sub", "prefix": "https://a#"}}),
        ({"username_claim": "email"}, {"username": {"claim": "email", "prefix": ""}}),
        ({"username_claim": "email", "username_prefix": "e:"}, {"username": {"claim": "email", "prefix": "e:"}}),
        ({"username_claim": "name", "username_prefix": "-"}, {"username": {"claim": "name", "prefix": ""}}),
        ({"groups_claim": "g"}, {"username": {"claim": "sub", "prefix": "https://a#"}, "groups": {"claim": "g", "prefix": ""}}),
    ],
)  # fmt: skip
def test_the_entry_that_flags_mean(flags: dict[str, Any], mappings: dict[str, Any]) -> None:
    options = {"issuer_url": "https://a", "client_id": "x", "ca": "PEM", "required_claims": {"a": "b"}}
    assert entry_from_flags({**options, **flags}) == {
        "issuer": {"url": "https://a", "audiences": ["x"], "certificateAuthority": "PEM"},
        "claimMappings": mappings,
        "claimValidationRules": [{"claim": "a", "requiredValue": "b"}],
    }
    assert entry_from_flags({"issuer_url": "https://a", "client_id": "x"})["issuer"] == {
        "url": "https://a",
        "audiences": ["x"],
    }


@pytest.mark.parametrize(
    ("mappings", "rules", "texts"),
    [
        ({"username": {"expression": "{'a': claims.sub}"}}, [], []),
        ({"groups": {"expression": "1 + 1"}, "uid": {"expression": "[claims.id]"}}, [], []),
        ({"extra": [{"key": "a.example/b", "valueExpression": "claims.?tenant"}]}, [], []),
        ({}, ["claims + 1 == 2"], ["no matching overload for '_+_' applied to '(map(string, any), int)'"]),
        (
            {},
            ["claims.admin"],
            ['jwt[0].claimValidationRules[0].expression: Invalid value: "claims.admin": must evaluate to bool'],
        ),
        ({}, ["claims.?admin.orValue(true)", "claims.admin == true"], ["must evaluate to bool"]),
        (
            {"username": {"expression": "claims.?email"}},
            ["claims.?email_verified.orValue(true)"],
            ["must evaluate to bool", "claims.email_verified must be used"],
        ),
    ],
)
def test_rules_are_booleans_and_mappings_are_checked_when_they_are_evaluated(
    mappings: dict[str, Any], rules: list[str], texts: list[str]
) -> None:
    entry: dict[str, Any] = {
        "issuer": {"url": "https://a", "audiences": ["x"]},
        "claimMappings": {"username": {"expression": "claims.sub"}, **mappings},
        "claimValidationRules": [{"expression": rule} for rule in rules],
    }
    _, errors = validate_entries([entry], ())
    assert len(errors) == len(texts)
    for error, text in zip(errors, texts, strict=True):
        assert text in str(error)


def test_an_unverified_email_expression_is_refused() -> None:
    entry: dict[str, Any] = {
        "issuer": {"url": "https://a", "audiences": ["x"]},
        "claimMappings": {"username": {"expression": "claims.email"}},
    }
    _, errors = validate_entries([entry], [])
    assert "email_verified" in errors[0].detail
