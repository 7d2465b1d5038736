"""AuthenticationConfiguration: JWT issuers and anonymous paths by file, reloadable (KEP-3331, KEP-4633)."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from kapi.authentication.interface import TokenAnswer, TokenAuthenticator
from kapi.authentication.union import UnionTokenAuthenticator
from kapi.authorization.configuration import ConfigurationError, read_tree
from kapi.machinery.field import Path, invalid, too_many
from kapi.machinery.tree import Object

if TYPE_CHECKING:
    from kapi.authentication.oidc.configuration import Expressions

_MAX_JWT_AUTHENTICATORS = 64
_PREFIXED: Object = {"claim": str, "prefix": str, "expression": str}
_SHAPE: Object = {
    "jwt": [
        {
            "issuer": {
                "url": str,
                "discoveryURL": str,
                "certificateAuthority": str,
                "audiences": [str],
                "audienceMatchPolicy": str,
                "egressSelectorType": str,
            },
            "claimValidationRules": [{"claim": str, "requiredValue": str, "expression": str, "message": str}],
            "claimMappings": {
                "username": _PREFIXED,
                "groups": _PREFIXED,
                "uid": {"claim": str, "expression": str},
                "extra": [{"key": str, "valueExpression": str}],
            },
            "userValidationRules": [{"expression": str, "message": str}],
        }
    ],
    "anonymous": {"enabled": bool, "conditions": [{"path": str}]},
}


class AuthenticationConfiguration(msgspec.Struct):
    entries: list[Object] = msgspec.field(default_factory=list)
    expressions: list[Expressions] = msgspec.field(default_factory=list)
    anonymous: bool | None = None  # None: not set in the file, so the flag applies
    anonymous_paths: list[str] | None = None  # None: all paths


def load_authentication(
    data: bytes, disallowed: Collection[str] = (), egress_selectors: bool = True
) -> AuthenticationConfiguration:
    """The settings in a file.  Raises ConfigurationError.

    ``disallowed``: the ServiceAccount issuers; ``egress_selectors``: whether issuers may have ``egressSelectorType``.
    """
    from kapi.authentication.oidc.configuration import validate_entries  # imported only when it is used

    tree = read_tree(data, "AuthenticationConfiguration", _SHAPE)
    entries = [entry or {} for entry in tree.get("jwt") or ()]
    if len(entries) > _MAX_JWT_AUTHENTICATORS:
        raise ConfigurationError(str(too_many(Path("jwt"), len(entries), _MAX_JWT_AUTHENTICATORS)))
    expressions, errors = validate_entries(entries, disallowed, egress_selectors)
    texts = [str(error) for error in errors]
    found = AuthenticationConfiguration(entries, expressions)
    anonymous = tree.get("anonymous")
    if anonymous is not None:
        found.anonymous = bool(anonymous.get("enabled"))
        conditions = anonymous.get("conditions") or []
        if conditions and not found.anonymous:
            shown = [{"Path": condition.get("path", "")} for condition in conditions]
            text = "enabled should be set to true when conditions are defined"
            texts.append(str(invalid(Path("anonymous").child("conditions"), shown, text)))
        if conditions:
            found.anonymous_paths = [condition.get("path", "") for condition in conditions]
    if texts:
        raise ConfigurationError("\n".join(texts))
    return found


class ReplaceableTokenAuthenticators:
    """Authenticators that a reload replaces in one step; running requests keep the old ones."""

    def __init__(self, authenticators: Sequence[TokenAuthenticator] = ()) -> None:
        self._union = UnionTokenAuthenticator(authenticators)

    def replace(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self._union = UnionTokenAuthenticator(authenticators)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        return self._union.authenticate_token(token, audiences)
