"""Secret (v1).

Upstream: ``pkg/apis/core/validation``: ValidateSecret; ``pkg/registry/core/secret``."""

from __future__ import annotations

import base64

from kapi.machinery.each import entries
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.pem import blocks
from kapi.machinery.tree import Object
from kapi.resources.core.configmaps import MAX_SIZE, decoded_size, validate_frozen
from kapi.resources.definition import Resource, StrategyContext, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.go_json import object_error
from kapi.resources.shared.metadata import validate_immutable, validate_metadata
from kapi.resources.shared.names import is_config_map_key
from kapi.resources.shared.rules import Errors, check, fits
from kapi.resources.shared.strategies import PlainStrategy


def key_pair_error(certificate: bytes, key: bytes) -> str:
    """The reason why certificate and key (PEM) are not a pair, in the words of Go's ``tls.X509KeyPair``; "" when they are."""
    kinds: list[str] = []
    chain: list[bytes] = []
    for kind, content, *_ in blocks(certificate):
        kinds.append(kind)
        if kind == "CERTIFICATE":
            chain.append(content)
    if not chain:
        return _not_found("certificate", "CERTIFICATE", kinds)
    kinds = []
    private = b""
    for kind, content, *_ in blocks(key):
        if kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"):
            private = content
            break
        kinds.append(kind)
    if not private:
        return _not_found("key", "PRIVATE KEY", kinds, certificate_in_key="CERTIFICATE" in kinds)
    return _mismatch(chain[0], private)


def _not_found(what: str, wanted: str, kinds: list[str], certificate_in_key: bool = False) -> str:
    if not kinds:
        return f"tls: failed to find any PEM data in {what} input"
    if what == "certificate" and len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    if what == "key" and len(kinds) == 1 and certificate_in_key:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    shown = "[" + " ".join(kinds) + "]"
    if what == "certificate":
        return (
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
            f"following types: {shown}"
        )
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: {shown}"
    )


def _mismatch(certificate: bytes, private: bytes) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    from kapi.machinery import der

    try:
        parsed = der.certificate(certificate)
    except ValueError as error:
        return str(error)
    try:
        public = parsed.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        loaded = der.private_key(private).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(loaded) is not type(public):
        return "tls: private key type does not match public key type"
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if loaded.public_bytes(*form) != public.public_bytes(*form):
        return "tls: private key does not match public key"
    return ""


_DATA = Path("data")
_TLS = "kubernetes.io/tls"
_ACCOUNT_TOKEN, _ACCOUNT_NAME = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
#: types with one key whose value is a JSON object
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _value(secret: Object, key: str) -> bytes:
    return base64.b64decode((secret.get("data") or {}).get(key) or "")


def _validate_type(secret: Object, errors: Errors) -> None:
    """Checks the required keys of well-known types."""
    kind, data = secret.get("type") or "", secret.get("data") or {}
    if kind == _ACCOUNT_TOKEN:
        if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
            errors.append(required(Path("metadata").child("annotations").key(_ACCOUNT_NAME)))
    elif kind in _DOCKER:
        key = _DOCKER[kind]
        if key not in data:
            errors.append(required(_DATA.key(key)))
            return
        problem = object_error(_value(secret, key))
        if problem:
            errors.append(invalid(_DATA.key(key), "<secret contents redacted>", problem))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors.append(required(_DATA.key("username")))
            errors.append(required(_DATA.key("password")))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.append(required(_DATA.key("ssh-privatekey")))
    elif kind == _TLS:
        errors += [required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in data]


class SecretStrategy(PlainStrategy):
    def default(self, obj: Object) -> None:
        texts = obj.pop("stringData", None)
        if texts:
            data = dict(obj.get("data") or {})
            data.update((key, base64.b64encode(text.encode()).decode()) for key, text in entries(texts))
            obj["data"] = data
        for key, value in entries(obj, "data"):
            if value is None:
                obj["data"][key] = ""
        obj["type"] = obj.get("type") or "Opaque"

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is not None and not obj.get("type"):
            obj["type"] = old.get("type", "")

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        size = 0
        for key, value in entries(obj, "data"):
            check(is_config_map_key)(key, _DATA.key(key), errors, ctx)
            size += decoded_size(value or "")
        fits(size, MAX_SIZE, _DATA, errors)
        _validate_type(obj, errors)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        found = bool(errors)
        validate_immutable(obj.get("type"), old.get("type"), Path("type"), errors)
        validate_frozen(obj, old, ("data",), errors, ctx, "data")
        validate_metadata(obj, errors, shared=found)  # without errors the shared checks have passed already
        self.check(obj, old, errors, ctx)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        if obj.get("type") != _TLS:
            return []
        problem = key_pair_error(_value(obj, "tls.crt"), _value(obj, "tls.key"))
        return [problem] if problem else []


RESOURCE = Resource(
    *type_meta("v1", "Secret"),
    strategy=SecretStrategy(),
    selectable_fields={"type": selectable("type")},
    table=printing.table(
        printing.NAME,
        printing.field_column("Type", ".type"),
        printing.column("Data", lambda obj, now: len(obj.get("data") or ()), ".data"),
        printing.AGE,
        of="api.core.v1.Secret",
    ),
)
