"""The errors of the client library (upstream: apimachinery ``api/errors``).

::

    StatusError                      the server has answered with a Status: see kapi.machinery.status, a class for each reason
    ClientError
     ├─ ConnectionFailed             there is no answer: connection refused, TLS failed, connection broken
     ├─ RequestTimeout               no answer came in time
     ├─ UnexpectedAnswer             an answer that does not follow the API
     └─ NoMatch                      the server has no such kind or resource
    ConfigError                      a configuration that cannot be used (kapi.client.config)
"""

from __future__ import annotations

import orjson

from kapi.client.config import ConfigError as ConfigError
from kapi.machinery import status as api
from kapi.machinery.status import StatusError as StatusError
from kapi.machinery.tree import Object
from kapi.wire.transport import Response


class Gone(StatusError):
    """The object or resource existed and does not any more."""

    code, reason = 410, "Gone"


class ServerTimeout(StatusError):
    """The server asks to try again."""

    code, reason = 500, "ServerTimeout"


_CLASSES: dict[str, type[StatusError]] = {
    kind.reason: kind
    for kind in (*vars(api).values(), Gone, ServerTimeout)
    if isinstance(kind, type) and issubclass(kind, StatusError)
}
_BY_CODE: dict[int, type[StatusError]] = {
    400: api.BadRequest, 401: api.Unauthorized, 403: api.Forbidden, 404: api.NotFound, 405: api.MethodNotAllowed,
    406: api.NotAcceptable, 409: api.Conflict, 410: Gone, 413: api.RequestTooLarge, 415: api.UnsupportedMediaType,
    422: api.Invalid, 429: api.TooManyRequests, 500: api.InternalError, 503: api.ServiceUnavailable, 504: api.Timeout,
}  # fmt: skip
_MAX_QUOTED = 2048  # characters of a body that is not a Status


class ClientError(Exception):
    """Base of the errors that the client itself raises."""


class ConnectionFailed(ClientError):
    """The request has no answer; ``__cause__`` is the error of the connection."""


class RequestTimeout(ClientError):
    pass


class UnexpectedAnswer(ClientError):
    pass


class NoMatch(ClientError):
    """No kind or resource of that name."""


def from_status(tree: Object, headers: tuple[tuple[str, str], ...] = ()) -> StatusError:
    """The error for a Status, of the class of its reason."""
    reason, code = str(tree.get("reason") or ""), tree.get("code")
    code = code if isinstance(code, int) else 500
    details = tree.get("details")
    kind = _CLASSES.get(reason, StatusError) if reason else StatusError
    return kind(
        str(tree.get("message") or ""),
        details=details if isinstance(details, dict) else None,
        code=code,
        reason=reason,
        headers=headers,
        continue_token=str((tree.get("metadata") or {}).get("continue") or ""),
    )


def from_response(response: Response, method: str = "", resource: str = "", name: str = "") -> StatusError:
    """The error for an answer with a code of 400 or more, with or without a Status as its body."""
    headers = tuple(
        (key.decode("latin-1"), value.decode("latin-1"))
        for key, values in response.headers.getAllRawHeaders()
        for value in values
    )
    tree = None
    if response.body[:1] in b"{ \t\r\n" and response.body:
        try:
            tree = orjson.loads(response.body)
        except ValueError:
            tree = None
    if isinstance(tree, dict) and tree.get("kind") == "Status":
        return from_status({"code": response.code, **tree}, headers)
    code, text = response.code, response.body.decode("utf-8", "replace").strip()[:_MAX_QUOTED]
    kind = _BY_CODE.get(code)
    messages = {
        401: "the server has asked for the client to provide credentials",
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        429: "the server has received too many requests and has asked us to try again later",
        503: "the server is currently unable to handle the request",
        504: "the server was unable to return a response in the time allotted, but may still be processing the request",
    }
    message = messages.get(code)
    if code == 500 or message is None:
        message = f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
        if code == 403 or code in (400, 422):
            message = text or "unknown"
    if method and (resource or name):
        message += f" ({method.lower()} {' '.join(part for part in (resource, name) if part)})"
    details: Object = {}
    after = retry_after(response)
    if after:
        details["retryAfterSeconds"] = after
    if text:
        details["causes"] = [{"reason": "UnexpectedServerResponse", "message": text}]
    made = kind or StatusError
    return made(message, details=details, code=code, headers=headers)


def retry_after(response: Response) -> int | None:
    """The seconds of Retry-After; None without one, or when it is not a number of at most five digits."""
    text = response.header(b"Retry-After")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else None
