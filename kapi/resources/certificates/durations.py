"""Counts certificates that were issued for a requested duration, and how often signers honor it.

Upstream: ``pkg/registry/certificates/certificates/storage/metrics.go``.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable

from cryptography import x509

from kapi.machinery.meters import Counter
from kapi.machinery.tree import Object
from kapi.resources.definition import StrategyContext

_PREFIX, _OF = "apiserver_certificates_registry_csr_", ("signerName",)
_SLICED = "sliced by signer (only kubernetes.io signer names are specifically identified)"
_TOLERANCE_SECONDS = 300  # signers date the beginning back
_TOLERANCE = 0.05  # of the requested duration

REQUESTED = Counter(
    _PREFIX + "requested_duration_total",
    f"[ALPHA] Total number of issued CSRs with a requested duration, {_SLICED}",
    _OF,
)
HONORED = Counter(
    _PREFIX + "honored_duration_total",
    f"[ALPHA] Total number of issued CSRs with a requested duration that was honored, {_SLICED}",
    _OF,
)


class CountedDurations:
    """The lifecycle of CertificateSigningRequests: a certificate counts when it was stored."""

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Callable[[bool], Awaitable[None]] | None:
        return None

    async def begin_update(
        self, obj: Object, old: Object, ctx: StrategyContext
    ) -> Callable[[bool], Awaitable[None]] | None:
        wanted = (old.get("spec") or {}).get("expirationSeconds")
        if wanted is None or (old.get("status") or {}).get("certificate"):
            return None

        async def finish(committed: bool) -> None:
            issued = (obj.get("status") or {}).get("certificate")
            if committed and issued:
                _count(old, wanted, issued)

        return finish

    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None: ...


def _count(request: Object, wanted: int, issued: str) -> None:
    signer = request["spec"].get("signerName", "")
    if not signer.startswith("kubernetes.io/"):
        signer = "other"
    REQUESTED.add(signer)
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(issued))
    except ValueError:  # none that validation lets pass
        return
    got = (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds()
    if abs(wanted - got) < _TOLERANCE_SECONDS + wanted * _TOLERANCE:
        HONORED.add(signer)
