"""Metrics of JWT authenticators under upstream's names (upstream: apiserver ``authenticator/token/oidc/metrics.go``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from prometheus_client.registry import CollectorRegistry

from kapi.machinery.meters import gauge, hashed, histogram
from kapi.machinery.server_id import server_id_hash

Answer = TypeVar("Answer")
_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class JWTMeter:
    """Metrics of all issuers of one server.  ``clock`` returns unix seconds; without ``key_sets`` fetches have no metrics."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.time,
        *,
        key_sets: bool = True,
    ) -> None:
        self._clock = clock
        self._server = server_id_hash()
        self._latency = histogram("apiserver_authentication_jwt_authenticator_latency_seconds", _BOUNDS)
        self._fetches = gauge("apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds")
        self._key_sets = gauge("apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info")
        if registry is not None:
            registry.register(self._latency)
            for collector in (self._fetches, self._key_sets) if key_sets else ():
                registry.register(collector)

    async def verifying(self, issuer: str, answer: Awaitable[Answer]) -> Answer:
        """Returns the answer, and measures its time."""
        began, result = time.monotonic(), "failure"
        try:
            found = await answer
            result = "success"
            return found
        finally:
            self._latency.observe(time.monotonic() - began, result, hashed(issuer))

    def fetched(self, issuer: str, keys: bytes | None) -> None:
        """Records the fetch of an issuer's key set; None when it failed."""
        of_issuer = hashed(issuer)
        self._fetches.set(self._clock(), "failure" if keys is None else "success", of_issuer, self._server)
        if keys is not None:
            self._forget_keys(of_issuer)
            self._key_sets.set(1, of_issuer, self._server, hashed(keys))

    def forget(self, issuer: str) -> None:
        """Removes the metrics of an issuer that has no authenticator any more."""
        of_issuer = hashed(issuer)
        self._forget_keys(of_issuer)
        for result in ("success", "failure"):
            self._fetches.rows.pop((result, of_issuer, self._server), None)

    def _forget_keys(self, of_issuer: str) -> None:
        for labels in [labels for labels in self._key_sets.rows if labels[0] == of_issuer]:
            del self._key_sets.rows[labels]
