"""An identity provider's discovery document and keys, fetched and renewed (OpenID Connect Discovery 1.0).

Keys are fetched again when a token names one that is not known, at most every few seconds, so that rotation works and a
flood of forged key ids does not reach the provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from twisted.internet.defer import CancelledError, Deferred

from kapi.authentication.interface import AuthenticationError
from kapi.machinery.tree import Tree

if TYPE_CHECKING:
    import jwt

    from kapi.client.https import HTTPSClient

_RETRY_SECONDS = 10.0  # seconds between attempts to reach a provider that could not be reached
_MIN_REFRESH_SECONDS = 5.0  # seconds between two fetches of the keys
_KINDS = frozenset({"RSA", "EC"})


class Provider:
    """``issuer`` as tokens name it; ``discovery_url`` when the document lives elsewhere."""

    def __init__(self, client: HTTPSClient, issuer: str, seconds: Callable[[], float], discovery_url: str = "") -> None:
        self.client = client
        self.issuer = issuer
        self._discovery_url = discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration"
        self._seconds = seconds
        self._jwks_uri = ""
        self._keys: list[jwt.PyJWK] = []
        self._attempt = float("-inf")
        self._fetching: list[Deferred[None]] | None = None
        self.problem = "not initialized"  # why the provider cannot be used; "" when it can

    @property
    def ready(self) -> bool:
        """Whether it was reached at least once."""
        return bool(self._keys)

    async def keys_for(self, key_id: str, algorithm: str) -> list[jwt.PyJWK]:
        """The keys that may have signed a token.  Raises AuthenticationError when the provider was never reached."""
        found = self._matching(key_id)
        now = self._seconds()
        pause = _MIN_REFRESH_SECONDS if self._keys else _RETRY_SECONDS
        if not found and (now - self._attempt >= pause or self._fetching is not None):
            await self.refresh()
            found = self._matching(key_id)
        if not self._keys and self.problem:
            raise AuthenticationError("oidc: authenticator not initialized")
        return found

    def _matching(self, key_id: str) -> list[jwt.PyJWK]:
        return [key for key in self._keys if not key_id or key.key_id == key_id]

    async def refresh(self) -> None:
        """Fetches the document and the keys; one fetch serves all who wait.  Problems are kept, not raised."""
        if self._fetching is not None:
            waiting: Deferred[None] = Deferred()
            self._fetching.append(waiting)
            await waiting
            return
        self._fetching, self._attempt = [], self._seconds()
        try:
            if not self._jwks_uri:
                self._jwks_uri = await self._discover()
            self._keys = await self._fetch_keys()
            self.problem = ""
        except CancelledError:
            raise
        except AuthenticationError as error:
            self.problem = str(error)
        except Exception as error:
            self.problem = f"{type(error).__name__}"
        finally:
            waiters, self._fetching = self._fetching, None
            for each in waiters or ():
                each.callback(None)

    async def _get(self, url: str) -> Tree:
        answer = await self.client.request("GET", url)
        if answer.status != 200:
            raise AuthenticationError(f"oidc: {url} answered {answer.status}")
        try:
            return orjson.loads(answer.body)
        except ValueError:
            raise AuthenticationError(f"oidc: {url} answered no JSON") from None

    async def _discover(self) -> str:
        document = await self._get(self._discovery_url)
        if not isinstance(document, dict) or document.get("issuer") != self.issuer:
            raise AuthenticationError("oidc: issuer did not match the issuer returned by provider")
        uri = document.get("jwks_uri")
        if not isinstance(uri, str) or not uri.startswith("https://"):
            raise AuthenticationError("oidc: the provider names no https jwks_uri")
        return uri

    async def _fetch_keys(self) -> list[jwt.PyJWK]:
        import jwt  # imported only when it is used

        document = await self._get(self._jwks_uri)
        keys = []
        for tree in document.get("keys") or () if isinstance(document, dict) else ():
            if not isinstance(tree, dict) or tree.get("kty") not in _KINDS or tree.get("use") not in (None, "sig"):
                continue
            try:
                keys.append(jwt.PyJWK(tree, algorithm=tree.get("alg")))
            except jwt.PyJWTError:
                continue
        if not keys:
            raise AuthenticationError("oidc: the provider publishes no usable keys")
        return keys
