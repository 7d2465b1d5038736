"""Keys, certificates and HTTPS servers made for the tests."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from twisted.internet import reactor, ssl
from twisted.internet.defer import Deferred
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def name(common: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        + [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


class Authority:
    """A CA that issues certificates."""

    def __init__(self, common: str = "test-ca") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._build(name(common), name(common), self.key.public_key(), ca=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def _build(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: Any,
        *,
        ca: bool = False,
        days: int = 1,
        usage: Any = None,
        hosts: bool = False,
        starts: int = -1,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + starts * DAY)
            .not_valid_after(NOW + days * DAY)
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, subject: x509.Name, **more: Any) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        return self._build(subject, self.certificate.subject, key.public_key(), **more), key

    def client(self, common: str, *organizations: str, **more: Any) -> x509.Certificate:
        more.setdefault("usage", ExtendedKeyUsageOID.CLIENT_AUTH)
        return self.issue(name(common, organizations), **more)[0]

    def server_context(self) -> ssl.PrivateCertificate:
        certificate, key = self.issue(name("localhost"), hosts=True, usage=ExtendedKeyUsageOID.SERVER_AUTH)
        return ssl.PrivateCertificate.loadPEM(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )


class HTTPSServer:
    """A real server on a free port of the loopback.  ``answer(path, body) -> (status, bytes)``."""

    def __init__(self, authority: Authority, answer: Callable[[str, bytes], tuple[int, bytes]]) -> None:
        self.calls: list[tuple[str, bytes, dict[bytes, list[bytes]]]] = []
        server = self

        class Everything(Resource):
            isLeaf = True

            def render(self, request: Any) -> Any:
                body = request.content.read()
                path = request.uri.decode()
                server.calls.append((path, body, dict(request.requestHeaders.getAllRawHeaders())))
                code, data = answer(path, body)
                request.setResponseCode(code)
                if code in (301, 302):
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
