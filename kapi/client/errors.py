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

import re

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


_NUMBER = re.compile(r"[-+]?[0-9]{1,5}", re.ASCII).fullmatch
_CLASSES: dict[str, type[StatusError]] = {
    kind.reason: kind
    for kind in (*vars(api).values(), Gone, ServerTimeout)
    if isinstance(kind, type) and issubclass(kind, StatusError)
}


class ClientError(Exception):
    """Base of the errors that the client itself raises."""


class ConnectionFailed(ClientError):
    """The request with this ``method`` and ``target`` has no answer; ``__cause__`` is the error of the connection."""

    def __init__(self, why: str, method: str = "", target: str = "") -> None:
        super().__init__(why)
        self.method, self.target = method, target


class RequestTimeout(ClientError):
    pass


class DeadlineExceeded(RequestTimeout):
    """The time was over before anything was sent."""


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
        metadata=tree.get("metadata"),
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
    if isinstance(tree, dict) and tree.get("kind") == "Status" and tree.get("status") == "Failure":
        return from_status({"code": response.code, **tree}, headers)
    text = api.unstructured_text(response.body, response.header(b"Content-Type"))
    reason, message = api.without_status(response.code, method, text)
    if method and (resource or name):
        message += f" ({method.lower()} {' '.join(part for part in (resource, name) if part)})"
    details: Object = {}
    after = retry_after(response)
    if after:
        details["retryAfterSeconds"] = after
    details["causes"] = [{"reason": "UnexpectedServerResponse", "message": text}]
    kind = Gone if response.code == 410 else _CLASSES.get(reason, StatusError)
    return kind(message, details=details, code=response.code, headers=headers)


def retry_after(response: Response) -> int | None:
    """The seconds of Retry-After, 0 for a time that is over; None without one, or when it is no number of at most five digits."""
    text = response.header(b"Retry-After")
    return max(int(text), 0) if _NUMBER(text) else None
