"""The documents of OpenAPI v3: one for each group version, and those of the root paths."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.endpoints.openapi import custom
from kapi.endpoints.openapi.paths import group_words, paths
from kapi.endpoints.openapi.schemas import V3, closure, definition_v3, references
from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource

INFO = {"title": "Kubernetes", "version": "1.36"}
BEARER = {
    "BearerToken": {
        "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
    }
}  # fmt: skip
_KINDS = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON_MEDIA = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")


def document_v3(
    items: dict[str, Object], own: dict[str, Object] | None = None, group: str = "", version: str = "v1"
) -> Object:
    """A document with path items and all schemas that they refer to; ``own`` are schemas of custom resources.

    Of kinds that every group version has (such as DeleteOptions) only this group version and ``v1`` are listed.
    """
    names = closure([*references(items), *references(own)])
    if own:  # upstream's apiextensions server makes its documents differently
        components: Object = {"schemas": {**{name: custom.definition(name) for name in elements(names)}, **own}}
        return {"openapi": "3.0.0", "info": custom.INFO, "paths": items, "components": components}
    schemas = {name: _within(definition_v3(name), group, version) for name in elements(names)}
    components = {"schemas": schemas} if schemas else {}
    components["securitySchemes"] = BEARER
    return {"openapi": "3.0.0", "info": INFO, "paths": items, "components": components}


def _within(schema: Object, group: str, version: str) -> Object:
    kinds = schema.get(_KINDS, ())
    if len(kinds) < 2:
        return schema
    kept = [kind for kind in kinds if (kind["group"], kind["version"]) in (("", "v1"), (group, version))]
    return {**schema, _KINDS: kept}


def group_version_v3(group: str, version: str, resources: Iterable[Resource]) -> Object:
    rows = list(resources)
    return document_v3(paths(group, version, rows), custom.custom_schemas(rows, V3), group, version)


def _simple(
    path: str, text: str, operation: str, name: str | None, word: str, only: str = "application/json"
) -> dict[str, Object]:
    schema: Object = {"$ref": V3 + name} if name else {"type": "string"}
    media = (only,) if name is None or name.endswith("Info") else _JSON_MEDIA
    ok = {"content": {kind: {"schema": schema} for kind in media}, "description": "OK"}
    responses = {"200": ok, "401": {"description": "Unauthorized"}}
    return {path: {"get": {"description": text, "operationId": operation, "responses": responses, "tags": [word]}}}


def group_v3(group: str) -> Object:
    """``/openapi/v3/apis/<group>``"""
    words = group_words(group)
    word = words[:1].lower() + words[1:]
    items = _simple(f"/apis/{group}/", "get information of a group", f"get{words}APIGroup", _META + "APIGroup", word)
    return document_v3(items)


def root_documents_v3() -> dict[str, Object]:
    """The documents that belong to no group, by their key in the index."""
    version = "io.k8s.apimachinery.pkg.version.Info"
    return {
        "api": document_v3(
            _simple("/api/", "get available API versions", "getCoreAPIVersions", _META + "APIVersions", "core")
        ),
        "apis": document_v3(
            _simple("/apis/", "get available API versions", "getAPIVersions", _META + "APIGroupList", "apis")
        ),
        "version": document_v3(
            _simple("/version/", "get the version information for this server", "getCodeVersion", version, "version")
        ),
        ".well-known/openid-configuration": document_v3(
            _simple(
                "/.well-known/openid-configuration/",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "getServiceAccountIssuerOpenIDConfiguration", None, "WellKnown",
            )
        ),
        "openid/v1/jwks": document_v3(
            _simple(
                "/openid/v1/jwks/",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "getServiceAccountIssuerOpenIDKeyset", None, "openid", "application/jwk-set+json",
            )
        ),
    }  # fmt: skip


def root_document_v3(key: str) -> Object:
    """One of them."""
    return root_documents_v3()[key]
