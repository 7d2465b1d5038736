"""Keys, certificates and HTTPS servers made for the tests."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from tests.certificates import DAY, key_pem, pem, sign

NOW = datetime.datetime.now(datetime.UTC)


def name(common: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        + [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


class Authority:
    """A CA that issues certificates."""

    def __init__(self, common: str = "test-ca") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = sign(name(common), self.key, ca=True)

    @property
    def pem(self) -> bytes:
        return pem(self.certificate)

    def issue(
        self, subject: x509.Name, *, starts: int = -1, days: int = 1, hosts: bool = False, **more: Any
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Valid from ``starts`` until ``days`` from now; ``hosts``: for this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = ["localhost", "127.0.0.1"] if hosts else []
        start, end = NOW + starts * DAY, NOW + days * DAY
        made = sign(subject, key, (self.certificate, self.key), hosts=names, start=start, end=end, **more)
        return made, key

    def client(self, common: str, *organizations: str, **more: Any) -> x509.Certificate:
        more.setdefault("usage", ExtendedKeyUsageOID.CLIENT_AUTH)
        return self.issue(name(common, organizations), **more)[0]

    def server_context(self) -> ssl.PrivateCertificate:
        certificate, key = self.issue(name("localhost"), hosts=True, usage=ExtendedKeyUsageOID.SERVER_AUTH)
        return ssl.PrivateCertificate.loadPEM(key_pem(key) + pem(certificate))


class HTTPSServer:
    """A real server on a free port of the loopback.  ``answer(path, body) -> (status, bytes)``, or None: never."""

    def __init__(self, authority: Authority, answer: Callable[[str, bytes], tuple[int, bytes] | None]) -> None:
        self.calls: list[tuple[str, bytes, dict[bytes, list[bytes]]]] = []
        server = self

        class Everything(Resource):
            isLeaf = True

            def render(self, request: Any) -> Any:
                body = request.content.read()
                path = request.uri.decode()
                server.calls.append((path, body, dict(request.requestHeaders.getAllRawHeaders())))
                answered = answer(path, body)
                if answered is None:
                    return NOT_DONE_YET
                code, data = answered
                request.setResponseCode(code)
                if code in (301, 302, 307):
                    request.setHeader(b"location", data)
                request.setHeader(b"content-type", b"application/json")
                request.write(data)
                request.finish()
                return NOT_DONE_YET

        options = authority.server_context().options()
        self._port = reactor.listenSSL(0, Site(Everything()), options, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.url = f"https://localhost:{self._port.getHost().port}"

    def stop(self) -> Deferred[None]:
        stopped: Deferred[None] = self._port.stopListening()
        return stopped
