"""Certificates without names or with old signatures are counted, whatever the verification says of them."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from kapi.wire.tls.faults import CertificateFaults

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def certificate(*names: str) -> x509.Certificate:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + datetime.timedelta(1))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False)
    return builder.sign(key, hashes.SHA256())


def counts(faults: CertificateFaults) -> tuple[float, float]:
    return faults.missing_san.rows[()], faults.insecure_sha1.rows[()]


@pytest.mark.parametrize(
    ("names", "problem", "depth", "expected"),
    [
        (("a",), 0, 0, (0, 0)),
        ((), 0, 0, (1, 0)),
        (("a",), 68, 0, (0, 1)),
        ((), 0, 1, (0, 0)),
        ((), 20, 0, (0, 0)),
    ],
    ids=["good", "without names", "weak digest", "an authority", "unknown issuer"],
)
def test_the_servers_own_certificate_counts(
    names: tuple[str, ...], problem: int, depth: int, expected: tuple[float, float]
) -> None:
    faults = CertificateFaults("webhooks")
    asked: list[tuple[Any, ...]] = []

    def verify(*arguments: Any) -> bool:
        asked.append(arguments)
        return False

    shown = SimpleNamespace(to_cryptography=lambda: certificate(*names))
    assert faults.observing(verify)("connection", shown, problem, depth, 1) is False
    assert asked == [("connection", shown, problem, depth, 1)]
    assert counts(faults) == expected
