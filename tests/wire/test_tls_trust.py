"""Whom a bundle makes trusted: what an authority in it has signed, and the very certificates in it; and what we show others."""

from __future__ import annotations

from typing import Any

import pytest
from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import reactor, ssl
from twisted.internet.protocol import Factory
from twisted.trial.unittest import TestCase

from kapi.wire.tls.trust import Identity, authorities, client_options, identity
from tests.authentication.identities import Authority, name
from tests.certificates import key_pem, pem
from tests.waiting import accepted_ended
from tests.wire.agents import agent_of, asked
from tests.wire.test_tls_client import LIMIT, Mirror


def test_a_bundle_without_an_authority_trusts_nobody_or_is_refused() -> None:
    with pytest.raises(ValueError, match="unable to parse bytes as PEM block"):
        authorities(b"nothing")
    authorities(b"nothing", required=False)


class TrustCase(TestCase):
    def setUp(self) -> None:
        self.authority = Authority()
        self.shown = self.authority.server_context()

    def server_options(self) -> Any:
        return self.shown.options()

    async def asked(
        self, bundle: bytes, host: str = "127.0.0.1", own: Identity | None = None, *, insecure: bool = False
    ) -> bytes:
        """What the server answers, which shows ``shown``, once it is trusted by ``bundle``."""
        server: Any = Factory.forProtocol(Mirror)
        server.received = 0
        port = reactor.listenSSL(0, server, self.server_options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        agent = agent_of(port.getHost().port, client_options(host, bundle, own, insecure=insecure))
        try:
            answer = await asked(agent, b"POST", b"https://127.0.0.1/", b"secret", LIMIT)
            return bytes(answer.body)
        except BaseException:
            self.assertEqual(server.received, 0)
            raise
        finally:
            await agent.pool.close()
            await port.stopListening()
            await accepted_ended()
            for warning in self.flushWarnings():
                self.assertIs(warning["category"], DeprecationWarning)  # of pyOpenSSL, which Twisted uses


class Anchors(TrustCase):
    async def test_what_the_authority_has_signed_is_trusted(self) -> None:
        self.assertEqual(await self.asked(self.authority.pem), b"secret")

    async def test_the_server_whose_own_certificate_is_in_the_bundle_is_trusted(self) -> None:
        """As by Go: envtest gives the serving certificate of its webhooks as ``caBundle``, not the authority's."""
        self.assertEqual(await self.asked(self.shown.dumpPEM()), b"secret")

    async def test_its_name_is_verified_all_the_same(self) -> None:
        with self.assertRaises(VerificationError):
            await self.asked(self.shown.dumpPEM(), "127.0.0.2")

    async def test_another_certificate_of_the_same_authority_is_not_trusted(self) -> None:
        with self.assertRaises(SSL.Error):
            await self.asked(self.authority.server_context().dumpPEM())

    async def test_a_servers_certificate_in_the_bundle_is_no_authority(self) -> None:
        certificate, key = self.authority.issue(name("localhost"), hosts=True)
        self.authority.certificate, self.authority.key = certificate, key
        self.shown = self.authority.server_context()
        with self.assertRaises(SSL.Error):
            await self.asked(self.authority.pem)

    async def test_an_intermediate_authority_in_the_bundle_is_trusted_without_its_root(self) -> None:
        certificate, key = self.authority.issue(name("intermediate"), ca=True)
        self.authority.certificate, self.authority.key = certificate, key
        self.shown = self.authority.server_context()
        self.assertEqual(await self.asked(self.authority.pem), b"secret")

    async def test_an_expired_certificate_in_the_bundle_is_not_trusted(self) -> None:
        certificate, key = self.authority.issue(name("localhost"), hosts=True, starts=-3, days=-1)
        self.shown = ssl.PrivateCertificate.loadPEM(key_pem(key) + pem(certificate))
        with self.assertRaises(SSL.Error):
            await self.asked(self.shown.dumpPEM())


class ClientCertificates(TrustCase):
    """A server that knows the root of our certificate alone: we show the authorities between."""

    def setUp(self) -> None:
        super().setUp()
        root = Authority("root-of-clients")
        between, key = root.issue(name("between"), ca=True)
        certificate, self.key = Authority.issue(_authority(between, key), name("us"))
        self.leaf, self.whole = pem(certificate), pem(certificate) + pem(between)
        self.root = ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(root.pem)])

    def server_options(self) -> Any:
        own = self.shown
        return ssl.CertificateOptions(privateKey=own.privateKey.original, certificate=own.original, trustRoot=self.root)

    async def test_the_chain_is_shown_with_the_certificate(self) -> None:
        shown = identity(self.whole, key_pem(self.key))
        self.assertEqual(await self.asked(self.authority.pem, own=shown), b"secret")
        self.assertEqual(await self.asked(b"", own=shown, insecure=True), b"secret")

    async def test_without_it_the_server_refuses(self) -> None:
        with self.assertRaises(SSL.Error):
            await self.asked(self.authority.pem, own=identity(self.leaf, key_pem(self.key)))

    def test_what_does_not_belong_together_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            identity(self.authority.pem + self.whole, key_pem(self.key))  # the key is that of the first
        with self.assertRaises(ValueError):
            identity(b"nothing", key_pem(self.key))


def _authority(certificate: Any, key: Any) -> Authority:
    made = Authority.__new__(Authority)
    made.certificate, made.key = certificate, key
    return made


class Suites(TrustCase):
    """What Go's client offers, and nothing else."""

    suite = ""

    def server_options(self) -> Any:
        options = self.shown.options()
        context = options.getContext()
        context.set_max_proto_version(SSL.TLS1_2_VERSION)
        context.set_cipher_list(self.suite.encode())
        return options

    async def test_a_server_that_knows_no_newer_suite_is_spoken_to(self) -> None:
        self.suite = "ECDHE-ECDSA-AES128-SHA"
        self.assertEqual(await self.asked(self.authority.pem), b"secret")

    async def test_a_suite_that_go_does_not_offer_is_refused(self) -> None:
        self.suite = "ECDHE-ECDSA-AES256-SHA384"
        for insecure in (False, True):
            with self.assertRaises(SSL.Error):
                await self.asked(b"" if insecure else self.authority.pem, insecure=insecure)
