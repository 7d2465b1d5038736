"""The RequestInfo of a request, from its raw path and query (upstream: apiserver ``endpoints/request/requestinfo.go``)."""

from __future__ import annotations

import msgspec

#: the verbs that create, change or delete one object
WRITES = frozenset({"create", "update", "patch", "delete"})
#: groups and resources with confidential bodies: messages about them may quote these
_CONFIDENTIAL = frozenset({("", "secrets"), ("authentication.k8s.io", "tokenreviews")})


def confidential(group: str, resource: str) -> bool:
    """Whether no part of a body may appear in logs, traces and texts of audit events."""
    return (group, resource) in _CONFIDENTIAL


class RequestInfo(msgspec.Struct):
    """The parsed request line.  For a non-resource request only ``path`` and ``verb`` (the lower-case method) are set."""

    is_resource: bool
    path: str  # decoded path without query
    verb: str  # get list watch create update patch delete deletecollection proxy, or the lower-case HTTP method
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    parts: tuple[str, ...] = ()  # decoded path segments from the resource on
    field_selector: str = ""
    label_selector: str = ""
    deprecated_watch: bool = False  # the path has the /watch/ prefix
    long_running: bool = False  # without deadline, wait group and in-flight limit
