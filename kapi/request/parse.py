"""Parses a request line into path, query and RequestInfo.

Upstream: apiserver ``endpoints/request/requestinfo.go`` and Go's ``net/url``.  The path is percent-decoded once and
split afterwards.  So an encoded slash is a slash for both routing and authorization, and the authorized resource is the served
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapi.machinery.golang import NumberError, parse_int
from kapi.machinery.names import path_segment
from kapi.machinery.selectors import SelectorError, parse_fields, parse_labels
from kapi.request.info import RequestInfo

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PATH_VERBS = frozenset({"proxy", "watch"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
#: requests without a deadline: watches, logs, proxied and upgraded ones (upstream: ``server/filters/longrunning.go``),
#: and the console's stream
_LONG_VERBS = frozenset({"watch", "proxy"})
_LONG_SUBRESOURCES = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_LONG_PATHS = ("/debug/pprof/", "/kapi/console/changes")
_SELECTING_VERBS = frozenset({"list", "watch", "deletecollection"})
_HEX = frozenset(b"0123456789abcdefABCDEF")

Query = dict[str, list[str]]
_PERCENT, _PLUS = b"%+"


def _unescape(raw: bytes, plus: bool) -> str:
    """Percent-decoding.  Raises ValueError on a broken escape, as Go does."""
    if _PERCENT not in raw and _PLUS not in raw:
        return raw.decode("utf-8", "replace")
    if plus:
        raw = raw.replace(b"+", b" ")
    pieces = raw.split(b"%")
    out = [pieces[0]]
    for piece in pieces[1:]:
        if len(piece) < 2 or piece[0] not in _HEX or piece[1] not in _HEX:
            raise ValueError(f'invalid URL escape "%{piece[:2].decode("utf-8", "replace")}"')
        out.append(bytes([int(piece[:2], 16)]) + piece[2:])
    return b"".join(out).decode("utf-8", "replace")


def parse_query(raw: bytes) -> Query:
    """Names and values in order; a pair with a semicolon or a broken escape is left out."""
    query: Query = {}
    if not raw:
        return query
    for pair in raw.split(b"&"):
        if not pair or b";" in pair:
            continue
        name, _, value = pair.partition(b"=")
        try:
            key, text = _unescape(name, True), _unescape(value, True)
        except ValueError:
            continue
        query.setdefault(key, []).append(text)
    return query


def split_uri(uri: bytes) -> tuple[str, Query]:
    """The decoded path and the query of a request target (in origin form, see ``target``).

    Raises ValueError: a request with a broken escape in its path is no HTTP request to upstream.
    """
    path, _, query = uri.partition(b"?")
    return _unescape(path, False), parse_query(query)


def go_bool(values: Sequence[str] | None) -> bool:
    """A boolean query option: absent, "0" and "false" are false, other values are true."""
    return values is not None and bool(values) and values[0] != "0" and values[0].lower() != "false"


def _whole(query: Query, name: str) -> bool:
    values = query.get(name)
    if not values:
        return True
    try:
        parse_int(values[0])
    except NumberError:
        return False
    return True


def _selected_name(query: Query) -> str:
    """The name that the field selector requires; "" when there is none or a list option is invalid."""
    selectors = query.get("fieldSelector")
    if not selectors or not selectors[0]:
        return ""
    try:
        labels = query.get("labelSelector")
        if labels:
            parse_labels(labels[0])
        name = parse_fields(selectors[0]).exact("metadata.name")
    except SelectorError:
        return ""
    if not name or not _whole(query, "limit") or not _whole(query, "timeoutSeconds") or path_segment(name):
        return ""
    return name


class NoResource(Exception):
    """A path with a special verb and no resource, such as ``/api/v1/watch``."""


def parse_request_info(
    method: str,
    path: str,
    query: Query,
    prefixes: frozenset[str] = frozenset({"api", "apis"}),
    groupless: frozenset[str] = frozenset({"api"}),
) -> RequestInfo:
    """The RequestInfo of a method, a decoded path and a query.  Raises NoResource."""
    info = RequestInfo(is_resource=False, path=path, verb=method.lower(), long_running=path.startswith(_LONG_PATHS))
    trimmed = path.strip("/")
    parts = trimmed.split("/") if trimmed else []
    if len(parts) < 3 or parts[0] not in prefixes:
        return info
    prefix = parts.pop(0)
    if prefix not in groupless:
        if len(parts) < 3:
            return info
        info.group = parts.pop(0)
    info.is_resource = True
    info.version = parts.pop(0)

    by_path = parts[0] in _PATH_VERBS
    if by_path:
        if len(parts) < 2:
            raise NoResource(path)
        info.verb = parts.pop(0)
        info.deprecated_watch = info.verb == "watch"
    else:
        info.verb = _VERBS.get(method, "")

    if parts[0] == "namespaces" and len(parts) > 1:
        info.namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    info.parts = tuple(parts)
    info.resource = parts[0]
    if len(parts) > 1:
        info.name = parts[1]
    if len(parts) > 2 and info.verb != "proxy":
        info.subresource = parts[2]

    if not info.name:
        if info.verb == "get":
            info.verb = "watch" if go_bool(query.get("watch")) else "list"
            info.name = _selected_name(query)
        elif info.verb == "delete":
            info.verb = "deletecollection"
    if not by_path and info.verb in _SELECTING_VERBS:
        info.field_selector = (query.get("fieldSelector") or ("",))[0]
        info.label_selector = (query.get("labelSelector") or ("",))[0]
    info.long_running = info.verb in _LONG_VERBS or info.subresource in _LONG_SUBRESOURCES
    return info
