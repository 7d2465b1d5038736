"""OIDC discovery of the ServiceAccount issuer (KEP-1393; upstream: ``openidmetadata.go``)."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from kapi.authentication.service_account.keys import VerificationKey
from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.response import JSON, Response

CONFIGURATION_PATH = "/.well-known/openid-configuration"
JWKS_PATH = "/openid/v1/jwks"
_JWKS = b"application/jwk-set+json"
_CACHING = ((b"cache-control", b"public, max-age=3600"),)


class IssuerDiscovery:
    """Two documents, made once.  Raises ValueError for an issuer that OIDC does not allow."""

    def __init__(self, issuer: str, jwks_uri: str, external_address: str, keys: Iterable[VerificationKey]) -> None:
        if not issuer.startswith("https://"):
            raise ValueError(f"issuer URL must use https scheme, got: {issuer}")
        if "?" in issuer or "#" in issuer:
            raise ValueError(f"issuer URL may not include a query or a fragment, got: {issuer}")
        if jwks_uri and not jwks_uri.startswith("https://"):
            raise ValueError(f"jwksURI requires https scheme, parsed as: {jwks_uri}")
        known = tuple(keys)
        algorithms = sorted({str(key.jwk()["alg"]) for key in known})
        self._configuration = orjson.dumps(
            {
                "issuer": issuer,
                "jwks_uri": jwks_uri or f"https://{external_address}{JWKS_PATH}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": algorithms,
            }
        )
        self._keys = orjson.dumps({"keys": [key.jwk() for key in known]})
        self.paths = {CONFIGURATION_PATH: self.configuration, JWKS_PATH: self.jwks}

    def configuration(self, ctx: RequestContext) -> Response:
        return _document(ctx, self._configuration, JSON)

    def jwks(self, ctx: RequestContext) -> Response:
        return _document(ctx, self._keys, _JWKS)


def _document(ctx: RequestContext, body: bytes, content_type: bytes) -> Response:
    if ctx.method != "GET":
        raise status.method_not_allowed()
    if not _accepts(ctx.header("accept") or "", content_type.decode()):
        raise status.NotAcceptable(
            f"406: Not Acceptable\n\nAvailable representations: {content_type.decode()}", details={}
        )
    ctx.drop_response_header(b"cache-control")
    return Response(200, body, content_type, _CACHING)


def _accepts(accept: str, content_type: str) -> bool:
    if not accept.strip():
        return True
    for clause in accept.split(","):
        name = clause.split(";", 1)[0].strip()
        if name in ("*/*", content_type, content_type.split("/", 1)[0] + "/*"):
            return True
    return False
