"""The keys that a provider publishes (JSON Web Key Set, RFC 7517).

A public key is made when a token first needs it: a set may have thousands of keys, and each takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.machinery.tree import Object, Tree

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

_KINDS = frozenset({"RSA", "EC"})
_EC_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class SigningKey:
    """``tree``: the key as JSON."""

    __slots__ = ("_made", "_public", "_tree", "key_id")

    def __init__(self, tree: Object, key_id: str) -> None:
        self.key_id = key_id
        self._tree = tree
        self._made = False
        self._public: AllowedPublicKeys | None = None

    def fits(self, algorithm: str) -> bool:
        """A key verifies only the algorithms of its own kind, curve and declaration."""
        tree = self._tree
        if tree.get("alg") not in (None, algorithm):
            return False
        if algorithm in _EC_CURVES:
            return bool(tree["kty"] == "EC" and tree.get("crv") == _EC_CURVES[algorithm])
        return bool(tree["kty"] == "RSA")

    @property
    def public(self) -> AllowedPublicKeys | None:
        """The key for a verification; None when its numbers are no key."""
        if not self._made:
            import jwt  # imported only when it is used

            self._made = True
            try:
                self._public = jwt.PyJWK(self._tree, algorithm=self._tree.get("alg")).key
            except (jwt.PyJWTError, ValueError, TypeError):
                pass
        return self._public


def signing_keys(document: Tree) -> list[SigningKey]:
    """The keys of a set that may sign tokens; what is none of these is left out."""
    trees = document.get("keys") if isinstance(document, dict) else None
    found = []
    for tree in trees if isinstance(trees, list) else ():
        if not isinstance(tree, dict) or tree.get("kty") not in _KINDS or tree.get("use") not in (None, "sig"):
            continue
        key_id = tree.get("kid") or ""
        if isinstance(key_id, str):
            found.append(SigningKey(tree, key_id))
    return found
