"""The documents of OpenAPI v3: one for each group version, and those of the root paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kapi.endpoints.openapi import custom
from kapi.endpoints.openapi.paths import group_words, paths
from kapi.endpoints.openapi.pieces import JSON, Form, Make, path_section, schema_section, whole
from kapi.endpoints.openapi.schemas import V3, closure, definition_v3, references
from kapi.machinery.lifecycles import RELEASE, Release
from kapi.machinery.tree import Object
from kapi.request.packed import Packed
from kapi.resources.definition import Resource


class Style(NamedTuple):
    """Settings of all documents: the emulated release, and whether they list the values of enumerations."""

    release: Release = RELEASE
    enums: bool = True

    @property
    def info(self) -> Object:
        return {"title": "Kubernetes", "version": str(self.release)}


STYLE = Style()
BEARER = {
    "BearerToken": {
        "description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey",
    }
}  # fmt: skip
_KINDS = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON_MEDIA = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")


def document_v3(
    items: Mapping[str, Make],
    form: Form = JSON,
    own: Mapping[str, Make] | None = None,
    group: str = "",
    version: str = "v1",
    style: Style = STYLE,
) -> Packed:
    """A document with path items and all schemas that they refer to; ``own`` are schemas of custom resources.

    Of kinds that every group version has (such as DeleteOptions) only this group version and ``v1`` are listed.
    """
    names = set(custom.REFERENCES if own else ())
    section = path_section([form])
    for path, make in items.items():
        item = make()
        if item:
            names.update(references(item))
            section.add(path, item)
    [paths] = section.texts
    schemas: dict[str, Make] = {
        name: partial(_schema, name, group, version, bool(own), style.enums) for name in closure(names)
    }
    [texts] = schema_section([form], {**schemas, **(own or {})}).texts
    components: Object = {"schemas": texts} if texts.size else {}
    if own:  # upstream's apiextensions server makes its documents differently
        return whole(form, {"openapi": "3.0.0", "info": custom.INFO, "paths": paths, "components": components})
    components["securitySchemes"] = BEARER
    return whole(form, {"openapi": "3.0.0", "info": style.info, "paths": paths, "components": components})


def _schema(name: str, group: str, version: str, custom_resources: bool, enums: bool) -> Object:
    return custom.definition(name) if custom_resources else _within(definition_v3(name, enums), group, version)


def _within(schema: Object, group: str, version: str) -> Object:
    kinds = schema.get(_KINDS, ())
    if len(kinds) < 2:
        return schema
    kept = [kind for kind in kinds if (kind["group"], kind["version"]) in (("", "v1"), (group, version))]
    return {**schema, _KINDS: kept}


def group_version_v3(
    group: str, version: str, resources: Iterable[Resource], cbor: bool, form: Form, style: Style = STYLE
) -> Packed:
    rows = list(resources)
    return document_v3(paths(group, version, rows, cbor), form, custom.custom_schemas(rows, V3), group, version, style)


def _simple(
    path: str, text: str, operation: str, name: str | None, word: str, only: str = "application/json"
) -> dict[str, Make]:
    schema: Object = {"$ref": V3 + name} if name else {"type": "string"}
    media = (only,) if name is None or name.endswith("Info") else _JSON_MEDIA
    ok = {"content": {kind: {"schema": schema} for kind in media}, "description": "OK"}
    responses = {"200": ok, "401": {"description": "Unauthorized"}}
    item = {"get": {"description": text, "operationId": operation, "responses": responses, "tags": [word]}}
    return {path: lambda: item}


def group_items(group: str) -> dict[str, Make]:
    """The operations of ``/openapi/v3/apis/<group>``."""
    words = group_words(group)
    word = words[:1].lower() + words[1:]
    return _simple(f"/apis/{group}/", "get information of a group", f"get{words}APIGroup", _META + "APIGroup", word)


def group_v3(group: str, form: Form, style: Style = STYLE) -> Packed:
    """``/openapi/v3/apis/<group>``"""
    return document_v3(group_items(group), form, style=style)


def root_items() -> dict[str, dict[str, Make]]:
    """The operations of the documents that belong to no group, by their key in the index."""
    version = "io.k8s.apimachinery.pkg.version.Info"
    return {
        "api": _simple("/api/", "get available API versions", "getCoreAPIVersions", _META + "APIVersions", "core"),
        "apis": _simple("/apis/", "get available API versions", "getAPIVersions", _META + "APIGroupList", "apis"),
        "version": _simple("/version/", "get the version information for this server", "getCodeVersion", version, "version"),
        ".well-known/openid-configuration": _simple(
                "/.well-known/openid-configuration/",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "getServiceAccountIssuerOpenIDConfiguration", None, "WellKnown",
            ),
        "openid/v1/jwks": _simple(
                "/openid/v1/jwks/",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "getServiceAccountIssuerOpenIDKeyset", None, "openid", "application/jwk-set+json",
            ),
    }  # fmt: skip


def root_document_v3(key: str, form: Form, style: Style = STYLE) -> Packed:
    return document_v3(root_items()[key], form, style=style)
