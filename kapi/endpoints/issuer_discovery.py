"""OIDC discovery of the ServiceAccount issuer (KEP-1393; upstream: ``openidmetadata.go``)."""

from __future__ import annotations

import orjson

from kapi.authentication.service_account.keys import KeySet, VerificationKey
from kapi.codecs.accept import route_accepts
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response

CONFIGURATION_PATH = "/.well-known/openid-configuration"
JWKS_PATH = "/openid/v1/jwks"
_JWKS = b"application/jwk-set+json"


class IssuerDiscovery:
    """The two documents, made again when the keys change.  Raises ValueError for an issuer that OIDC does not allow."""

    def __init__(self, issuer: str, jwks_uri: str, external_address: str, keys: KeySet) -> None:
        if not issuer.startswith("https://"):
            raise ValueError(f"issuer URL must use https scheme, got: {issuer}")
        if "?" in issuer or "#" in issuer:
            raise ValueError(f"issuer URL may not include a query or a fragment, got: {issuer}")
        if jwks_uri and not jwks_uri.startswith("https://"):
            raise ValueError(f"jwksURI requires https scheme, parsed as: {jwks_uri}")
        self._issuer, self._uri = issuer, jwks_uri or f"https://{external_address}{JWKS_PATH}"
        self._keys = keys
        self._made_of: tuple[VerificationKey, ...] | None = None
        self._documents = (b"", b"")
        self.paths = {CONFIGURATION_PATH: self.configuration, JWKS_PATH: self.jwks}

    def configuration(self, ctx: RequestContext) -> Response:
        return self._document(ctx, 0, JSON)

    def jwks(self, ctx: RequestContext) -> Response:
        return self._document(ctx, 1, _JWKS)

    def _document(self, ctx: RequestContext, which: int, content_type: bytes) -> Response:
        if ctx.method != "GET":
            raise status.method_not_allowed()
        if not route_accepts(ctx.header("accept") or "", (content_type.decode(),)):
            raise status.NotAcceptable(
                f"406: Not Acceptable\n\nAvailable representations: {content_type.decode()}", details={}
            )
        ctx.drop_response_header(b"cache-control")
        caching = ((b"cache-control", b"public, max-age=%d" % self._keys.max_age),)
        return Response(200, self._made()[which], content_type, caching)

    def _made(self) -> tuple[bytes, bytes]:
        """Both documents, for the present keys."""
        if self._made_of is not self._keys.keys:
            self._made_of = self._keys.keys
            shown = [key.jwk() for key in self._made_of if not key.excluded]
            configuration = {
                "issuer": self._issuer,
                "jwks_uri": self._uri,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": sorted({str(key["alg"]) for key in shown}),
            }
            self._documents = (orjson.dumps(configuration), orjson.dumps({"keys": shown}))
        return self._documents
