"""Whom a bundle makes trusted: what an authority in it has signed, and the very certificates in it."""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL
from service_identity import VerificationError
from twisted.internet import reactor, ssl
from twisted.internet.protocol import Factory
from twisted.trial.unittest import TestCase

from kapi.wire.tls.trust import authorities, verified_options
from tests.authentication.identities import Authority, name
from tests.certificates import key_pem, pem
from tests.waiting import accepted_ended
from tests.wire.agents import agent_of, asked
from tests.wire.test_tls_client import LIMIT, Mirror


class AnchorCase(TestCase):
    def setUp(self) -> None:
        self.authority = Authority()
        self.shown = self.authority.server_context()

    async def asked(self, bundle: bytes, host: str = "127.0.0.1") -> bytes:
        """What the server answers, which shows ``shown``, once it is trusted by ``bundle``."""
        server: Any = Factory.forProtocol(Mirror)
        server.received = 0
        port = reactor.listenSSL(0, server, self.shown.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        agent = agent_of(port.getHost().port, verified_options(host, authorities(bundle), None))
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
