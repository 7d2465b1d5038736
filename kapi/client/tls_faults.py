"""Server certificates of kinds that will not be accepted for ever: without subject alternative names, or signed with SHA-1.

Upstream: apiserver ``util/x509metrics``.  Nothing is judged here; the handshake goes on as it would.
"""

from __future__ import annotations

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA1
from OpenSSL import SSL, crypto

from kapi.machinery.meters import Counter

Verify = Callable[[SSL.Connection, crypto.X509, int, int, int], bool]
_WEAK_DIGEST = 68  # what OpenSSL says of a signature that it does not take any more


class CertificateFaults:
    """``of``: whose requests, as the names of upstream's metrics say; ``stage``: how stable the metrics are."""

    def __init__(self, of: str, stage: str) -> None:
        self.unnamed = Counter(
            f"apiserver_{of}_x509_missing_san_total",
            f"[{stage}] Counts the number of requests to servers missing SAN extension in their serving certificate OR the "
            "number of connection failures due to the lack of x509 certificate SAN extension missing (either/or, based on "
            "the runtime environment)",
        )
        self.weak = Counter(
            f"apiserver_{of}_x509_insecure_sha1_total",
            f"[{stage}] Counts the number of requests to servers with insecure SHA1 signatures in their serving certificate "
            "OR the number of connection failures due to the insecure SHA1 signatures (either/or, based on the runtime "
            "environment)",
        )

    def looking(self, callback: Verify) -> Verify:
        """A verification callback (pyOpenSSL's) that looks at the server's certificate first."""

        def look(connection: SSL.Connection, certificate: crypto.X509, problem: int, depth: int, fine: int) -> bool:
            if depth == 0 and problem in (0, _WEAK_DIGEST):
                self.look(certificate.to_cryptography(), weak=problem == _WEAK_DIGEST)
            return bool(callback(connection, certificate, problem, depth, fine))

        return look

    def look(self, certificate: x509.Certificate, *, weak: bool = False) -> None:
        try:
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            self.unnamed.add()
        except ValueError:
            pass  # what cannot be read does not get through the handshake either
        if weak or isinstance(certificate.signature_hash_algorithm, SHA1):
            self.weak.add()


WEBHOOKS = CertificateFaults("webhooks", "BETA")
AGGREGATOR = CertificateFaults("kube_aggregator", "ALPHA")
COLLECTORS = (WEBHOOKS.unnamed, WEBHOOKS.weak, AGGREGATOR.unnamed, AGGREGATOR.weak)
