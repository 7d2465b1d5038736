"""OIDC discovery of the ServiceAccount issuer (KEP-1393; upstream: ``openidmetadata.go``)."""

from __future__ import annotations

import orjson

from kapi.authentication.service_account.keys import KeySet, VerificationKey
from kapi.codecs.accept import route_accepts
from kapi.machinery import status
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response

CONFIGURATION_PATH = "/.well-known/openid-configuration"
JWKS_PATH = "/openid/v1/jwks"
_JWKS = b"application/jwk-set+json"


class IssuerDiscovery:
    """The two documents, with the current keys.  Raises ValueError for an issuer that OIDC does not allow.

    Without a ``jwks_uri`` the keys are at ``external_address``, those of a logical cluster below its path.
    """

    def __init__(self, issuer: str, jwks_uri: str, external_address: str, keys: KeySet) -> None:
        if not issuer.startswith("https://"):
            raise ValueError(f"issuer URL must use https scheme, got: {issuer}")
        if "?" in issuer or "#" in issuer:
            raise ValueError(f"issuer URL may not include a query or a fragment, got: {issuer}")
        if jwks_uri and not jwks_uri.startswith("https://"):
            raise ValueError(f"jwksURI requires https scheme, parsed as: {jwks_uri}")
        self._issuer, self._uri, self._address = issuer, jwks_uri, external_address
        self._keys = keys
        self._made_of: tuple[VerificationKey, ...] | None = None
        self._shown: list[Object] = []
        self.paths = {CONFIGURATION_PATH: self.configuration, JWKS_PATH: self.jwks}

    def of(self, issuer: str) -> IssuerDiscovery:
        """The documents of another issuer with the same keys."""
        return IssuerDiscovery(issuer, self._uri, self._address, self._keys)

    def configuration(self, ctx: RequestContext) -> Response:
        place = f"/clusters/{ctx.cluster}" if ctx.cluster else ""
        document = {
            "issuer": self._issuer,
            "jwks_uri": self._uri or f"https://{self._address}{place}{JWKS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({str(key["alg"]) for key in self._keys_shown()}),
        }
        return self._answer(ctx, document, JSON)

    def jwks(self, ctx: RequestContext) -> Response:
        return self._answer(ctx, {"keys": self._keys_shown()}, _JWKS)

    def _answer(self, ctx: RequestContext, document: Object, content_type: bytes) -> Response:
        if ctx.method != "GET":
            raise status.method_not_allowed()
        if not route_accepts(ctx.header("accept") or "", (content_type.decode(),)):
            raise status.NotAcceptable(
                f"406: Not Acceptable\n\nAvailable representations: {content_type.decode()}", details={}
            )
        ctx.drop_response_header(b"cache-control")
        caching = ((b"cache-control", b"public, max-age=%d" % self._keys.max_age),)
        return Response(200, orjson.dumps(document), content_type, caching)

    def _keys_shown(self) -> list[Object]:
        """The keys as JWKs, made again when they change."""
        if self._made_of is not self._keys.keys:
            self._made_of = self._keys.keys
            self._shown = [key.jwk() for key in self._made_of if not key.excluded]
        return self._shown
