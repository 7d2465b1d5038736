"""AuthenticationConfiguration files: read strictly, and taken up while the server runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jwt
import pytest
import yaml
from prometheus_client import CollectorRegistry
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from kapi.authentication.configuration import load_authentication
from kapi.authentication.interface import Authenticated, AuthenticationError
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.service_account.keys import VerificationKey
from kapi.authorization.configuration import ConfigurationError
from kapi.machinery.meters import hashed
from kapi.options.authentication import AuthenticationOptions
from kapi.options.errors import ConfigError
from kapi.options.external import ExternalIdentity
from kapi.options.flags import parse
from kapi.wire.egress import DIRECT, Egress
from kapi.wire.tunnel import ProxyError
from tests.authentication.identities import Authority, HTTPSServer
from tests.rsa_keys import rsa_key

CA = Authority()
HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}


class Issuer:
    """A real identity provider of this process."""

    def __init__(self, name: str) -> None:
        self.key = rsa_key(name)
        self.up = True
        self.server = HTTPSServer(CA, self.answer)
        self.url = self.server.url

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not self.up:
            return 503, b""
        if path in ("/.well-known/openid-configuration", "/elsewhere/document"):
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        return 200, json.dumps({"keys": [VerificationKey.of(self.key.public_key()).jwk()]}).encode()

    def entry(self) -> dict[str, Any]:
        issuer = {"url": self.url, "audiences": ["kapi"], "certificateAuthority": CA.pem.decode()}
        return {"issuer": issuer, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}

    def token(self) -> str:
        claims = {"iss": self.url, "aud": "kapi", "sub": "jane", "exp": int(time.time()) + 60}
        headers = {"kid": VerificationKey.of(self.key.public_key()).key_id}
        return jwt.encode(claims, self.key, algorithm="RS256", headers=headers)


class ReloadTest(TestCase):
    def setUp(self) -> None:
        self.directory = TemporaryDirectory()
        self.file = Path(self.directory.name) / "authentication.yaml"
        self.one, self.two = Issuer("one"), Issuer("two")
        self.registry = CollectorRegistry()

    async def tearDown(self) -> None:
        for provider in self.identity._providers:
            await provider.client.close()
        await self.one.server.stop()
        await self.two.server.stop()
        self.directory.cleanup()

    def write(self, *issuers: Issuer, **more: Any) -> None:
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": [each.entry() for each in issuers], **more}))

    def start(self, egress: Egress = DIRECT, **features: bool) -> None:
        flags = AuthenticationOptions()
        assert not parse([flags], [f"--authentication-config={self.file}"])
        flags.complete()
        self.identity = ExternalIdentity(flags, reactor, self.registry, egress, features)

    async def reload(self) -> None:
        waiting = self.identity.reload()
        if waiting is not None:
            await waiting

    async def user(self, issuer: Issuer, token: str = "") -> str:
        answer: Any = self.identity.tokens[0].authenticate_token(token or issuer.token())
        if answer is not None and not isinstance(answer, Authenticated):
            answer = await answer
        return answer.user.name if answer is not None else ""

    def reloads(self, status: str) -> float:
        name = "apiserver_authentication_config_controller_automatic_reloads_total"
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name and sample.labels["status"] == status
        )

    async def test_issuers_come_and_go_with_the_file(self) -> None:
        self.write(self.one)
        self.start()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["jane", ""])
        self.write(self.one, self.two)
        await self.reload()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["jane", "jane"])
        self.write(self.two)
        await self.reload()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["", "jane"])
        await self.reload()
        self.assertEqual((self.reloads("success"), self.reloads("failure")), (2, 0))

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """By issuer's hash and the other labels but the server's."""
        families = (family for family in self.registry.collect() if family.name.endswith(name))
        return {
            (
                sample.labels["jwt_issuer_hash"],
                *(sample.labels.get(label, "") for label in ("result", "hash")),
            ): sample.value
            for family in families
            for sample in family.samples
            if not sample.name.endswith(("_bucket", "_sum"))
        }

    async def test_metrics_have_the_key_sets_of_the_issuers_in_force(self) -> None:
        self.write(self.one)
        self.start()
        token = self.one.token()
        for _ in range(2):  # the second is in the cache
            await self.user(self.one, token)
        await self.user(self.two)  # nobody's
        one, two = (hashed(each.url) for each in (self.one, self.two))
        keys = hashed(self.one.answer("/keys", b"")[1])
        latency, info = "jwt_authenticator_latency_seconds", "last_key_set_info"
        timestamps = "jwks_fetch_last_timestamp_seconds"
        self.assertEqual(self.samples(latency), {(one, "success", ""): 1})
        self.assertEqual(self.samples(info), {(one, "", keys): 1})
        self.assertEqual(self.samples(timestamps).keys() - {("", "", "")}, {(one, "success", "")})
        self.write(self.one, self.two)
        self.two.up = False
        await self.reload()
        self.assertEqual(self.samples(info).keys(), {(one, "", keys)}, "the file is not in force")
        self.assertEqual(self.samples(timestamps).keys(), {(one, "success", "")})
        self.write(self.two)
        self.two.up = True
        await self.reload()
        self.assertEqual([key[0] for key in self.samples(info)], [two])
        self.assertEqual(self.samples(timestamps).keys(), {(two, "success", "")})

    async def test_a_wrong_file_changes_nothing(self) -> None:
        self.write(self.one)
        self.start()
        for text in ("{", "", yaml.safe_dump({**HEAD, "jwt": [{"issuer": {"url": "http://insecure.example"}}]})):
            self.file.write_text(text)
            await self.reload()
        self.file.unlink()
        await self.reload()
        self.assertEqual(await self.user(self.one), "jane")
        self.assertEqual((self.reloads("success"), self.reloads("failure")), (0, 4))

    async def test_new_issuers_are_asked_together(self) -> None:
        """One that hangs does not keep the reload from the next one's answer."""
        self.write()
        self.start()
        asked: list[str] = []
        gate: Deferred[None] = Deferred()

        async def hanging(provider: Provider, url: str) -> None:
            asked.append(provider.issuer)
            await gate

        self.patch(Provider, "_get", hanging)
        self.write(self.one, self.two)
        reloading = self.identity.reload()
        assert reloading is not None
        self.assertEqual(len(asked), 2)
        gate.callback(None)
        await reloading

    async def test_issuers_that_do_not_answer_take_nobodys_place(self) -> None:
        self.write(self.one)
        self.start()
        self.two.up = False
        self.write(self.two)
        await self.reload()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["jane", ""])
        self.two.up = True
        await self.reload()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["", "jane"])
        self.assertEqual((self.reloads("success"), self.reloads("failure")), (1, 1))

    async def test_a_document_kept_elsewhere_and_one_audience_of_several(self) -> None:
        entry = self.one.entry()
        more = {"discoveryURL": f"{self.one.url}/elsewhere/document", "audienceMatchPolicy": "MatchAny"}
        entry["issuer"] |= {**more, "audiences": ["other", "kapi"]}
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": [entry, self.two.entry()]}))
        self.start()
        self.assertEqual([await self.user(self.one), await self.user(self.two)], ["jane", "jane"])
        asked = [path for path, _, _ in self.one.server.calls]
        self.assertEqual(asked, ["/elsewhere/document", "/keys"])

    async def test_an_authority_of_one_issuer_vouches_for_no_other(self) -> None:
        entry = self.two.entry()
        entry["issuer"]["certificateAuthority"] = Authority("other").pem.decode()
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": [self.one.entry(), entry]}))
        self.start()
        self.assertEqual(await self.user(self.one), "jane")
        with self.assertRaisesRegex(AuthenticationError, "not initialized"):
            await self.user(self.two)
        self.assertEqual(self.two.server.calls, [])

    async def test_an_issuer_is_reached_through_the_proxy_that_it_names(self) -> None:
        """As upstream: without an egressSelectorType directly, whatever proxies there are."""
        reached: list[tuple[str, str]] = []

        class Proxy:
            def __init__(self, network: str) -> None:
                self.network = network

            async def connect(self, reactor: Any, target: str, *arguments: Any) -> Any:
                reached.append((self.network, target))
                raise ProxyError("closed")

        networks: Any = {network: Proxy(network) for network in ("cluster", "controlplane")}
        entries = [self.one.entry(), self.two.entry()]
        entries[1]["issuer"]["egressSelectorType"] = "cluster"
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": entries}))
        self.start(Egress(networks))
        self.assertEqual(await self.user(self.one), "jane")
        self.assertEqual(reached, [])
        with self.assertRaisesRegex(AuthenticationError, "not initialized"):
            await self.user(self.two)
        self.assertEqual(reached, [("cluster", self.two.server.url.removeprefix("https://"))])

    async def test_egress_selectors_without_proxies_are_refused(self) -> None:
        entry = self.one.entry()
        entry["issuer"]["egressSelectorType"] = "cluster"
        self.write(self.one)
        self.start()
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": [entry]}))
        with self.assertRaisesRegex(ConfigError, 'egress lookup required with egress selector type "cluster"'):
            self.start()

    async def test_the_network_cannot_be_chosen_without_the_gate(self) -> None:
        self.write(self.one)
        self.start()
        entry = self.one.entry()
        entry["issuer"]["egressSelectorType"] = "cluster"
        self.file.write_text(yaml.safe_dump({**HEAD, "jwt": [entry]}))
        text = (
            'jwt\\[0\\].issuer.egressSelectorType: Invalid value: "cluster": egress selector is not supported when '
            "StructuredAuthenticationConfigurationEgressSelector feature gate is disabled"
        )
        with self.assertRaisesRegex(ConfigError, text):
            self.start(StructuredAuthenticationConfigurationEgressSelector=False)

    async def test_fetches_of_key_sets_are_in_metrics_unless_the_gate_is_off(self) -> None:
        self.write(self.one)
        for shown in (True, False):
            self.registry = CollectorRegistry()
            self.start(StructuredAuthenticationConfigurationJWKSMetrics=shown)
            self.assertTrue(await self.user(self.one))
            names = {family.name for family in self.registry.collect()}
            prefix = "apiserver_authentication_jwt_authenticator_"
            self.assertIn(f"{prefix}latency_seconds", names)
            self.assertEqual(f"{prefix}jwks_fetch_last_timestamp_seconds" in names, shown)
            if shown:
                await self.identity._providers[0].client.close()


def problems(**tree: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_authentication(yaml.safe_dump({**HEAD, **tree}).encode())
    return str(caught.value)


def entry(**more: Any) -> dict[str, Any]:
    issuer = {"url": "https://issuer.example", "audiences": ["kapi"], **more.pop("issuer", {})}
    return {"issuer": issuer, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}, **more}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"jwt": [entry(isuer={})]}, 'strict decoding error: unknown field "jwt[0].isuer"'),
        ({"jwt": [entry(issuer={"uri": "x"})]}, 'strict decoding error: unknown field "jwt[0].issuer.uri"'),
        ({"jwt": [entry(issuer={"audiences": "kapi"})]}, "jwt[0].issuer.audiences: must be a list"),
        ({"jwt": ["x"]}, "jwt[0]: must be an object"),
        ({"jwt": [entry(issuer={"url": 7})]}, "jwt[0].issuer.url: must be a string"),
        (
            {"jwt": [entry(issuer={"egressSelectorType": "moon"})]},
            'jwt[0].issuer.egressSelectorType: Invalid value: "moon": '
            "egress selector must be either controlplane or cluster",
        ),
        (
            {"jwt": [entry(claimMappings={"username": {"expression": "claims.sub", "prefix": "p:"}})]},
            'jwt[0].claimMappings.username.prefix: Invalid value: "p:": may not be specified when expression is set',
        ),
        (
            {"anonymous": {"enabled": False, "conditions": [{"path": "/livez"}]}},
            'anonymous.conditions: Invalid value: [{"Path":"/livez"}]: '
            "enabled should be set to true when conditions are defined",
        ),
        (
            {"jwt": [entry(issuer={"url": "https://[::1", "discoveryURL": "https://a b"})]},
            """jwt[0].issuer.url: Invalid value: "https://[::1": parse "https://[::1": missing ']' in host\n"""
            'jwt[0].issuer.discoveryURL: Invalid value: "https://a b": '
            'parse "https://a b": invalid character " " in host name',
        ),
        (
            {"anonymous": {"enabled": False, "conditions": [None]}},
            'anonymous.conditions: Invalid value: [{"Path":""}]: '
            "enabled should be set to true when conditions are defined",
        ),
        ({"jwt": [entry(issuer={"audiences": [None]})]}, "jwt[0].issuer.audiences[0]: Required value"),
        ({"jwt": [entry()] * 65}, "jwt: Too many: 65: must have at most 64 items"),
    ],
)
def test_what_is_wrong_is_said(tree: dict[str, Any], text: str) -> None:
    assert problems(**tree) == text


def test_a_key_that_is_there_twice_is_no_accident() -> None:
    text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\njwt: []\n"
    with pytest.raises(ConfigurationError, match='key "jwt" already set in map'):
        load_authentication(text.encode())


@pytest.mark.parametrize(
    ("expression", "refused"),
    [
        ("claims.email", True),
        ("has(claims.email) ? claims.email : claims.sub", True),
        ("claims.?email.orValue('')", True),
        ("claims.email_verified ? claims.email : claims.sub", False),
        ("claims.sub + 'claims.email'", False),
        ("claims.emails", False),
    ],
)
def test_an_email_counts_only_when_verified(expression: str, refused: bool) -> None:
    tree = {"jwt": [entry(claimMappings={"username": {"expression": expression}})]}
    if refused:
        assert "claims.email_verified must be used" in problems(**tree)
    else:
        load_authentication(yaml.safe_dump({**HEAD, **tree}).encode())
