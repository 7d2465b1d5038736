"""Requests to an API server: paths, parameters, bodies, answers, errors, retries (upstream: client-go ``rest``).

A RESTClient is for one base path (``/api/v1``, ``/apis/apps/v1``; "" for whole paths), over a Transport that many may share::

    client = RESTClient.for_config(config, "v1")
    pods = await client.get().namespace("default").resource("pods").param("limit", 500).do()

Every answer of 400 and above is raised as the StatusError of its reason; no answer is a ClientError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.error import ConnectionClosed
from twisted.internet.task import deferLater

from kapi.client.config import Config, ConfigError
from kapi.client.credentials import Header
from kapi.client.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    RequestTimeout,
    StatusError,
    UnexpectedAnswer,
    from_response,
    retry_after,
)
from kapi.client.limiter import NO_ANSWER
from kapi.client.session import Session, base_path, parse_warnings
from kapi.client.watching import Watch
from kapi.machinery.tree import Tree
from kapi.process.reactor import Reactor
from kapi.wire.answer import BadAnswer
from kapi.wire.transport import Response, Stream, Transport

if TYPE_CHECKING:
    from kapi.wire.spdy import SPDYStreams
    from kapi.wire.websocket import WebSocket

Result = TypeVar("Result")
JSON = "application/json"
MAX_RETRIES = 10
#: content types of PATCH
PatchType = Literal["json", "merge", "strategic", "apply"]
PATCH_TYPES: Mapping[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_BROKEN = (ConnectionClosed, BadAnswer)  # the server has closed the connection; a GET is sent again
_UNSAFE = ("/", "%")


class Content(NamedTuple):
    """The media type in which a client writes objects and asks for them (upstream: ContentConfig).

    ``encode`` returns None for a tree without such a form, which is then written as JSON.  ``decode`` raises ValueError.

    Patches and watches are always JSON.
    """

    media_type: str
    encode: Callable[[Tree], bytes | None]
    decode: Callable[[bytes], Tree]

    @property
    def accept(self) -> str:
        """The Accept header, with JSON for resources that the server does not have in this form."""
        return self.media_type if self.media_type == JSON else f"{self.media_type},{JSON}"


JSON_CONTENT = Content(JSON, orjson.dumps, orjson.loads)


class RESTClient:
    """``path`` is the prefix of each request's path; ``content`` is the form of objects, ``accept`` a different Accept header."""

    def __init__(self, session: Session, path: str = "", *, content: Content = JSON_CONTENT, accept: str = "") -> None:
        self.session, self.path = session, path.rstrip("/")
        self.content, self.accept = content, accept or content.accept

    @classmethod
    def for_config(
        cls,
        config: Config,
        group_version: str = "",
        reactor: Reactor | None = None,
        *,
        transport: Transport | None = None,
    ) -> RESTClient:
        return cls(
            Session.for_config(config, reactor, transport=transport), base_path(group_version) if group_version else ""
        )

    def verb(self, method: str) -> Request:
        return Request(self, method)

    def get(self) -> Request:
        return Request(self, "GET")

    def post(self) -> Request:
        return Request(self, "POST")

    def put(self) -> Request:
        return Request(self, "PUT")

    def delete(self) -> Request:
        return Request(self, "DELETE")

    def patch(self, kind: PatchType) -> Request:
        return Request(self, "PATCH").header("Content-Type", PATCH_TYPES[kind])

    def close(self) -> Deferred[None]:
        """Closes the session, also for other clients that use it."""
        return self.session.close()


class Request:
    """One request, built step by step.  Raises ValueError for a namespace or name that is no path segment."""

    def __init__(self, client: RESTClient, method: str) -> None:
        self._client, self._session, self._method = client, client.session, method
        self._namespace = self._resource = self._name = ""
        self._subresource: tuple[str, ...] = ()
        self._absolute: str | None = None
        self._params: list[tuple[str, str]] = []
        self._headers: dict[str, str] = {}
        self._body: bytes | None = None
        self._timeout = self._session.timeout
        self._deadline = 0.0  # on the reactor's clock; 0 for none
        self._retries = MAX_RETRIES
        self._limited = True

    def namespace(self, namespace: str) -> Request:
        """Sets the namespace; "" is none."""
        self._namespace = _segment("namespace", namespace)
        return self

    def resource(self, resource: str) -> Request:
        self._resource = _segment("resource", resource)
        return self

    def name(self, name: str) -> Request:
        if not name:
            raise ValueError("resource name may not be empty")
        self._name = _segment("resource name", name)
        return self

    def subresource(self, *parts: str) -> Request:
        self._subresource = tuple(_segment("subresource", part) for part in parts if part)
        return self

    def abs_path(self, path: str) -> Request:
        """Sets the whole path, with its query if it has one, both escaped already."""
        parsed = urlsplit(path)
        self._absolute = parsed.path if parsed.path.startswith("/") else "/" + parsed.path
        if parsed.query:
            self._absolute += "?" + parsed.query
        return self

    def param(self, name: str, value: object) -> Request:
        """Adds a query parameter; None, "" and False are left out."""
        if value is None or value is False or value == "":
            return self
        self._params.append((name, "true" if value is True else str(value)))
        return self

    def append_param(self, name: str, value: str) -> Request:
        """Adds a query parameter that may be repeated, and may be empty."""
        self._params.append((name, value))
        return self

    def params(self, given: Mapping[str, object]) -> Request:
        for name, value in given.items():
            self.param(name, value)
        return self

    def header(self, name: str, value: str) -> Request:
        self._headers[name] = value
        return self

    def body(self, body: object, content_type: str = "") -> Request:
        """Sets the body: bytes as they are, a tree in the client's form, or as JSON when a content type is set (patches)."""
        if content_type:
            self._headers["Content-Type"] = content_type
        content = self._client.content
        if isinstance(body, bytes):
            self._body = body
        elif "Content-Type" not in self._headers and (data := content.encode(body)) is not None:
            self._body, self._headers["Content-Type"] = data, content.media_type
        else:
            self._body = orjson.dumps(body)
        self._headers.setdefault("Content-Type", JSON)
        return self

    def timeout(self, seconds: float) -> Request:
        """The limit for the request with all its retries; 0 is none."""
        self._timeout = seconds
        return self

    def retries(self, count: int) -> Request:
        """How often the request is retried at most."""
        self._retries = count
        return self

    def unlimited(self) -> Request:
        """Sends the request without the client's rate limit."""
        self._limited = False
        return self

    @property
    def target(self) -> str:
        """Path and query, escaped."""
        if self._absolute is not None:
            path = self._absolute
        else:
            parts = [self._client.path]
            if self._namespace:
                parts += ["namespaces", self._namespace]
            if self._resource:
                parts.append(self._resource.lower())
            if self._name:
                parts.append(self._name)
            parts += self._subresource
            path = "/".join([parts[0], *(quote(part, safe=":@!$&'()*+,;=~") for part in parts[1:])]) or "/"
        if self._params:
            path += ("&" if "?" in path else "?") + urlencode(sorted(self._params, key=itemgetter(0)))
        return path

    async def do(self) -> Tree:
        """The answer as a tree.  Raises StatusError, ClientError, ConfigError."""
        response = await self.response()
        data = response.body
        if not data:
            return None
        try:
            return self._content_of(response).decode(data)
        except ValueError:
            raise UnexpectedAnswer(f"the answer is no JSON: {data[:100].decode('utf-8', 'replace')}") from None

    def _content_of(self, response: Response) -> Content:
        content = self._client.content
        if content is JSON_CONTENT or not response.header(b"Content-Type").startswith(content.media_type):
            return JSON_CONTENT
        return content

    async def raw(self) -> bytes:
        """The answer's body as bytes.  Raises as ``do``."""
        return (await self.response()).body

    async def response(self) -> Response:
        """The answer with its headers; its code is below 400.  Raises as ``do``."""
        return await self._timed(self._answered(streaming=False))

    async def stream(self) -> Stream:
        """The answer's body piece by piece.  The timeout counts until it begins.  The caller closes it.  Raises as ``do``."""
        response = await self._timed(self._answered(streaming=True))
        if response.stream is None:
            raise UnexpectedAnswer(f"unexpected answer {response.code} to a request for a stream")
        return response.stream

    async def watch(self) -> Watch:
        """The events of a watch.  Raises as ``do``."""
        self.param("watch", True)
        self._headers.setdefault("Accept", JSON)
        return Watch(await self.stream())

    async def websocket(self, *protocols: str) -> WebSocket:
        """A WebSocket with one of the protocols.  Raises StatusError, ClientError, ConfigError."""
        return await self._upgraded(getattr(self._session.transport, "websocket", None), "a WebSocket", protocols)

    async def spdy(
        self, protocols: Sequence[str], streams: Mapping[int, Mapping[str, str]], greetings: Sequence[bytes] = ()
    ) -> SPDYStreams:
        """Streams of SPDY, with their headers, by channel.  Raises as ``websocket``."""
        connect = getattr(self._session.transport, "spdy", None)
        return await self._upgraded(connect, "streams", protocols, streams, greetings)

    async def _upgraded(
        self, connect: Callable[..., Awaitable[Result | Response]] | None, what: str, *arguments: object
    ) -> Result:
        session = self._session
        if connect is None:
            raise UnexpectedAnswer(f"this transport cannot ask for {what}")
        await session.throttle(self._limited)
        authenticated_anew = False
        while True:
            answer = await self._sent(connect(self.target, await self._all_headers(), *arguments))
            if not isinstance(answer, Response):
                return answer
            if answer.code < 400:
                raise UnexpectedAnswer(f"unexpected answer {answer.code} to a request for {what}")
            if answer.code != 401 or authenticated_anew or not session.rejected():
                raise self._refusal(answer)
            authenticated_anew = True

    def _refusal(self, response: Response) -> StatusError:
        """The error for an answer of 400 or more."""
        content = self._content_of(response)
        if content is not JSON_CONTENT:
            with suppress(ValueError):
                response.body = orjson.dumps(content.decode(response.body))
        return from_response(response, self._method, self._resource, self._name)

    async def _timed(self, coroutine: Coroutine[Deferred[object], object, Response]) -> Response:
        if not self._timeout:
            result: Response = await coroutine
            return result
        self._deadline = self._session.reactor.seconds() + self._timeout
        running: Deferred[Response] = Deferred.fromCoroutine(coroutine)
        running.addTimeout(self._timeout, self._session.reactor)
        try:
            return await running
        except TimeoutError:
            raise RequestTimeout(f"no answer within {self._timeout:g} seconds") from None

    async def _answered(self, streaming: bool) -> Response:
        session = self._session
        attempt, authenticated_anew = 0, False
        while True:
            await session.throttle(self._limited)
            if self._deadline and session.reactor.seconds() >= self._deadline:
                raise DeadlineExceeded("context deadline exceeded")
            wait = 0.0
            try:
                response = await self._send(streaming)
            except CancelledError:
                raise
            except _BROKEN as problem:
                if self._method != "GET" or attempt >= self._retries:
                    raise ConnectionFailed(_reason(problem), self._method, self.target) from problem
                # the first attempt may have used an idle connection that the server had closed
                wait = 1.0 if attempt else 0.0
            else:
                code = response.code
                if code == 401 and not authenticated_anew and session.rejected():
                    authenticated_anew = True  # not counted as a retry
                    continue
                if code < 400:
                    return response
                after = retry_after(response)
                if not (code == 429 or code >= 500) or after is None or attempt >= self._retries:
                    raise self._refusal(response)
                wait = float(after)
            attempt += 1
            if wait:
                await deferLater(session.reactor, wait)

    async def _all_headers(self) -> list[Header]:
        session = self._session
        headers = [(b"Accept", self._headers.get("Accept", self._client.accept).encode()), *session.headers]
        headers += await session.credentials.headers()
        return headers + [(name.encode(), value.encode()) for name, value in self._headers.items() if name != "Accept"]

    async def _sent(self, answer: Awaitable[Result]) -> Result:
        """The answer; an error of the connection is raised as ConnectionFailed."""
        try:
            return await answer
        except (CancelledError, ConfigError, *_BROKEN):
            raise
        except Exception as problem:  # sockets, resolvers and OpenSSL raise many types
            raise ConnectionFailed(_reason(problem), self._method, self.target) from problem

    async def _send(self, streaming: bool) -> Response:
        session = self._session
        headers = await self._all_headers()
        request = session.transport.request(self._method, self.target, headers, self._body, streaming=streaming)
        backoff = session.backoff
        try:
            response: Response = await self._sent(request)
        except CancelledError:
            raise
        except Exception:
            if backoff is not None:
                backoff.answered(NO_ANSWER)
            raise
        if backoff is not None:
            backoff.answered(response.code)
        for value in response.headers.getRawHeaders(b"Warning", ()):
            for code, agent, text in parse_warnings(value.decode("utf-8", "replace")):
                session.warnings(code, agent, text)
        return response


def _segment(what: str, text: str) -> str:
    if text in (".", ".."):
        raise ValueError(f"invalid {what} \"{text}\": [may not be '{text}']")
    for character in _UNSAFE:
        if character in text:
            raise ValueError(f"invalid {what} \"{text}\": [may not contain '{character}']")
    return text


def _reason(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__
