"""Distributed claims: groups that another provider has (OpenID Connect Core 1.0, section 5.6.2).

Upstream: apiserver ``plugin/pkg/authenticator/token/oidc`` claimResolver.  The endpoint is read only from a verified token.
It answers with another token, which is verified against its own issuer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError

from kapi.authentication.interface import AuthenticationError
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.oidc.verification import verified_claims
from kapi.authentication.service_account.signed import parse_unverified
from kapi.machinery.tree import Object
from kapi.wire.network_errors import describe_request

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

_MAX_PROVIDERS = 16  # cached issuers of distributed claims


class DistributedClaims:
    """Fetches one claim, the groups."""

    def __init__(
        self,
        claim: str,
        client: EndpointClient,
        audiences: Collection[str],
        algorithms: Collection[str],
        clock: Callable[[], float],
        seconds: Callable[[], float],
    ) -> None:
        self.claim = claim
        self._client = client
        self._audiences, self._algorithms = audiences, algorithms
        self._clock, self._seconds = clock, seconds
        self._providers: dict[str, Provider] = {}

    async def expand(self, claims: Object) -> None:
        """Adds the claim, if the token refers to another provider for it.  Raises AuthenticationError."""
        claim = self.claim
        names = claims.get("_claim_names")
        if claim in claims or not isinstance(names, dict) or claim not in names:
            return
        sources = claims.get("_claim_sources")
        source = sources.get(names[claim]) if isinstance(sources, dict) else None
        if not isinstance(source, dict):
            raise AuthenticationError("oidc: could not expand distributed claims: the source is missing")
        if not source.get("endpoint"):
            return  # an aggregated claim: the token's issuer does not vouch for it
        token = await self._fetch(source["endpoint"], source.get("access_token"))
        found = await verified_claims(token, self._provider(token), self._audiences, self._algorithms, self._clock())
        if claim not in found:
            raise AuthenticationError("oidc: could not expand distributed claims: the answer has no such claim")
        claims[claim] = found[claim]

    async def _fetch(self, url: object, access_token: object) -> str:
        if not isinstance(url, str) or not url.startswith("https://"):
            raise AuthenticationError("oidc: could not expand distributed claims: the endpoint is no https URL")
        headers = {"Accept": "application/jwt"}
        if isinstance(access_token, str) and access_token:
            headers["Authorization"] = f"Bearer {access_token}"
        try:
            answer = await self._client.request("GET", url, headers=headers)
        except CancelledError:
            raise
        except Exception as error:
            why = describe_request(error, "GET", url)
            raise AuthenticationError(f"oidc: could not expand distributed claims: {why}") from None
        if not 200 <= answer.code <= 226:
            raise AuthenticationError(f"oidc: could not expand distributed claims: answered {answer.code}")
        return str(answer.body.decode("utf-8", "replace").strip())

    def _provider(self, token: str) -> Provider:
        parsed = parse_unverified(token)
        issuer = parsed[1].get("iss") if parsed is not None else None
        if not isinstance(issuer, str) or not issuer.startswith("https://"):
            raise AuthenticationError("oidc: could not expand distributed claims: the answer names no https issuer")
        provider = self._providers.get(issuer)
        if provider is None:
            if len(self._providers) >= _MAX_PROVIDERS:
                self._providers.clear()
            provider = self._providers[issuer] = Provider(self._client, issuer, self._seconds)
        return provider
