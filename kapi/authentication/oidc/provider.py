"""An identity provider's discovery document and keys, fetched and renewed (OpenID Connect Discovery 1.0, RFC 7517).

The document is fetched when the server starts, so that the log shows early that an issuer cannot be reached.

Keys are fetched again when no known key verifies a token, at most every few seconds.  So rotation works, and a flood of forged
tokens does not reach the provider.  A public key is parsed when a token first needs it, since a set may have thousands of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.authentication.interface import AuthenticationError
from kapi.authentication.oidc.metrics import JWTMeter
from kapi.machinery.tree import Object, Tree
from kapi.process.timers import Repeated
from kapi.wire.network_errors import describe_request

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

    from kapi.client.endpoint_client import EndpointClient

log = Logger()
_KINDS = frozenset({"RSA", "EC"})
_EC_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RETRY_SECONDS = 10.0  # seconds between attempts to reach a provider that could not be reached
_MIN_REFRESH_SECONDS = 5.0  # seconds between two fetches of the keys


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
        """The public key; None when the numbers are invalid."""
        if not self._made:
            import jwt  # imported only when it is used

            self._made = True
            try:
                self._public = jwt.PyJWK(self._tree, algorithm=self._tree.get("alg")).key
            except (jwt.PyJWTError, ValueError, TypeError):
                pass
        return self._public


def signing_keys(document: Tree) -> list[SigningKey]:
    """The keys of a set that may sign tokens; other entries are ignored."""
    trees = document.get("keys") if isinstance(document, dict) else None
    found = []
    for tree in trees if isinstance(trees, list) else ():
        if not isinstance(tree, dict) or tree.get("kty") not in _KINDS or tree.get("use") not in (None, "sig"):
            continue
        key_id = tree.get("kid") or ""
        if isinstance(key_id, str):
            found.append(SigningKey(tree, key_id))
    return found


class Provider:
    """``issuer`` as in tokens; ``discovery_url`` when the document has another URL."""

    def __init__(
        self,
        client: EndpointClient,
        issuer: str,
        seconds: Callable[[], float],
        discovery_url: str = "",
        meter: JWTMeter | None = None,
    ) -> None:
        self.meter = meter or JWTMeter()
        self.client = client
        self.issuer = issuer
        self._discovery_url = discovery_url or issuer.rstrip("/") + "/.well-known/openid-configuration"
        self._seconds = seconds
        self._jwks_uri = ""
        self._keys: Sequence[SigningKey] = ()
        self._by_id: dict[str, list[SigningKey]] = {}
        self._attempt = float("-inf")
        self._waiting: list[Deferred[None]] | None = None  # requests that wait for the running fetch
        self.problem = "not initialized"  # why the provider cannot be used; "" when it can
        self._looking: Repeated | None = None
        self._found: Deferred[None] | None = None  # fires at the end of the running discovery
        self._logged = ""  # the problem that was logged last

    @property
    def ready(self) -> bool:
        """Whether it was reached at least once."""
        return bool(self._keys)

    def begin(self, reactor: IReactorTime) -> None:
        """Fetches the document now, and every ten seconds until it succeeds.  Keys are fetched for the first token."""
        self._looking = looking = Repeated(self._look, reactor, "looking for an issuer of tokens")
        looking.start(_RETRY_SECONDS, now=True)

    def _look(self) -> Deferred[None] | None:
        if self._jwks_uri:
            self._stop_looking()
            return None
        self._found = Deferred.fromCoroutine(self._find())
        return self._found

    async def _find(self) -> None:
        try:
            self._jwks_uri = await self._discover()
        except CancelledError:
            raise
        except Exception as error:  # any error of the network; requests with a token get it
            why = _text(error)
            if why != self._logged:
                self._logged = why
                log.error("oidc: the issuer {issuer} cannot be used yet: {why}", issuer=self.issuer, why=why)
        else:
            self._stop_looking()

    def _stop_looking(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.stop()

    def known_keys(self, key_id: str) -> Sequence[SigningKey]:
        """The fetched keys that may have signed a token."""
        return self._by_id.get(key_id, ()) if key_id else self._keys

    async def newer_keys(self, key_id: str, tried: Sequence[SigningKey]) -> Sequence[SigningKey]:
        """Fetches keys again for a token that none of ``tried`` verifies: a new key may have the id of an old one.

        Empty when the last fetch was too recent.  Raises AuthenticationError when the provider was never reached.
        """
        pause = _MIN_REFRESH_SECONDS if self._keys else _RETRY_SECONDS
        if self._waiting is not None or self._seconds() - self._attempt >= pause:
            await self.refresh()
        if not self._keys and self.problem:
            raise AuthenticationError("oidc: authenticator not initialized")
        found = self.known_keys(key_id)
        return () if found is tried else found

    async def refresh(self) -> None:
        """Fetches the document and the keys, once for all waiting requests.  Problems are stored, not raised.

        The fetch continues when the waiting requests have ended: other requests need the keys too.
        """
        waiting: Deferred[None] = Deferred(self._left)
        if self._waiting is None:
            self._waiting = [waiting]
            Deferred.fromCoroutine(self._fetch())
        else:
            self._waiting.append(waiting)
        await waiting

    def _left(self, waiting: Deferred[None]) -> None:
        if self._waiting is not None and waiting in self._waiting:
            self._waiting.remove(waiting)

    def leave(self) -> None:
        """Ends the discovery and the connections; a running fetch is not measured any more."""
        self.meter = JWTMeter()
        self._stop_looking()
        if self._found is not None:
            self._found.cancel()
        self.client.close().addErrback(lambda _: None)

    async def _fetch(self) -> None:
        self._attempt = self._seconds()
        try:
            if not self._jwks_uri:
                self._jwks_uri = await self._discover()
            self._keys = await self._fetch_keys()
            self._by_id = {}
            for key in self._keys:
                self._by_id.setdefault(key.key_id, []).append(key)
            self.problem = ""
        except Exception as error:
            self.problem = _text(error)
        finally:
            waiting, self._waiting = self._waiting, None
            for each in waiting or ():
                if not each.called:  # one waiting request may cancel another
                    each.callback(None)

    async def _get(self, url: str) -> bytes:
        try:
            answer = await self.client.request("GET", url)
        except CancelledError:
            raise
        except Exception as error:  # any error of the network
            raise AuthenticationError(f"oidc: {describe_request(error, 'GET', url)}") from None
        if answer.code != 200:
            raise AuthenticationError(f"oidc: {url} answered {answer.code}")
        return answer.body

    async def _discover(self) -> str:
        document = _decoded(await self._get(self._discovery_url), self._discovery_url)
        if not isinstance(document, dict) or document.get("issuer") != self.issuer:
            raise AuthenticationError("oidc: issuer did not match the issuer returned by provider")
        uri = document.get("jwks_uri")
        if not isinstance(uri, str) or not uri.startswith("https://"):
            raise AuthenticationError("oidc: the provider names no https jwks_uri")
        return uri

    async def _fetch_keys(self) -> Sequence[SigningKey]:
        fetched = None
        try:
            body = await self._get(self._jwks_uri)
            document = _decoded(body, self._jwks_uri)
            fetched = body
        finally:
            self.meter.fetched(self.issuer, fetched)
        keys = signing_keys(document)
        if not keys:
            raise AuthenticationError("oidc: the provider publishes no usable keys")
        return keys


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, AuthenticationError) else type(error).__name__


def _decoded(body: bytes, url: str) -> Tree:
    try:
        return orjson.loads(body)
    except ValueError:
        raise AuthenticationError(f"oidc: {url} answered no JSON") from None
