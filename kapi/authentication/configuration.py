"""AuthenticationConfiguration: JWT issuers and anonymous paths by file, reloadable (KEP-3331, KEP-4633)."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from kapi.authentication.interface import TokenAnswer, TokenAuthenticator
from kapi.authentication.oidc.configuration import Expressions, validate_entries
from kapi.authentication.union import UnionTokenAuthenticator
from kapi.authorization.configuration import ConfigurationError, read_tree

Object = dict[str, Any]
_MOST = 64  # JWT authenticators


@dataclass(slots=True)
class AuthenticationConfiguration:
    entries: list[Object] = field(default_factory=list)
    expressions: list[Expressions] = field(default_factory=list)
    anonymous: bool | None = None  # None: the file does not say, the flag counts
    anonymous_paths: list[str] | None = None  # None: everywhere


def load_authentication(data: bytes, disallowed: Collection[str] = ()) -> AuthenticationConfiguration:
    """What a file says.  ``disallowed``: the ServiceAccount issuers.  Raises ConfigurationError."""
    tree = read_tree(data, "AuthenticationConfiguration")
    entries = tree.get("jwt") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError("jwt: must be a list of objects")
    if len(entries) > _MOST:
        raise ConfigurationError(f"jwt: Too many: {len(entries)}: must have at most {_MOST} items")
    expressions, errors = validate_entries(entries, disallowed)
    texts = [str(error) for error in errors]
    found = AuthenticationConfiguration(entries, expressions)
    anonymous = tree.get("anonymous")
    if anonymous is not None:
        found.anonymous = bool(anonymous.get("enabled"))
        conditions = anonymous.get("conditions") or []
        if conditions and not found.anonymous:
            texts.append("anonymous.conditions: enabled should be set to true when conditions are defined")
        if conditions:
            found.anonymous_paths = [condition.get("path", "") for condition in conditions]
    if texts:
        raise ConfigurationError("\n".join(texts))
    return found


class ReplaceableTokenAuthenticators:
    """Authenticators that a reload exchanges in one step; requests under way keep those they started with."""

    def __init__(self, authenticators: Sequence[TokenAuthenticator] = ()) -> None:
        self._union = UnionTokenAuthenticator(authenticators)

    def replace(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self._union = UnionTokenAuthenticator(authenticators)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        return self._union.authenticate_token(token, audiences)
