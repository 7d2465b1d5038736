"""Counts deprecated server certificates: those without subject alternative names, and those signed with SHA-1.

Upstream: apiserver ``util/x509metrics``.  Nothing is rejected here; the handshake goes on as it would.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA1
from OpenSSL import SSL, crypto

from kapi.machinery.meters import counter

Verify = Callable[[SSL.Connection, crypto.X509, int, int, int], bool]
_WEAK_DIGEST = 68  # OpenSSL's error code for a signature that it no longer accepts (X509_V_ERR_CA_MD_TOO_WEAK)


class CertificateFaults:
    """``of`` is the part of the metrics' names for the kind of requests."""

    def __init__(self, of: str) -> None:
        self.missing_san = counter(f"apiserver_{of}_x509_missing_san_total")
        self.insecure_sha1 = counter(f"apiserver_{of}_x509_insecure_sha1_total")

    def observing(self, callback: Verify) -> Verify:
        """A verification callback of pyOpenSSL that first counts the server's certificate, then calls ``callback``."""

        def observe(connection: SSL.Connection, certificate: crypto.X509, problem: int, depth: int, fine: int) -> bool:
            if depth == 0 and problem in (0, _WEAK_DIGEST):
                self.observe(certificate.to_cryptography(), weak=problem == _WEAK_DIGEST)
            return bool(callback(connection, certificate, problem, depth, fine))

        return observe

    def observe(self, certificate: x509.Certificate, *, weak: bool) -> None:
        try:
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            self.missing_san.add()
        except ValueError:
            pass  # a certificate that cannot be parsed fails in the handshake, too
        if weak or isinstance(certificate.signature_hash_algorithm, SHA1):
            self.insecure_sha1.add()


WEBHOOKS = CertificateFaults("webhooks")
AGGREGATOR = CertificateFaults("kube_aggregator")
COLLECTORS = (WEBHOOKS.missing_san, WEBHOOKS.insecure_sha1, AGGREGATOR.missing_san, AGGREGATOR.insecure_sha1)
