"""Headers that are looked up without encoding their names anew.

The stock class canonicalises a name on every access; here the names that matter are known beforehand, in every spelling that
clients use.  What is stored, and what any other name does, is the stock class's business.
"""

from __future__ import annotations

from typing import Any

from twisted.web.http_headers import Headers

_KNOWN = (
    "Accept Accept-Encoding Audit-Id Authorization Cache-Control Connection Content-Encoding Content-Length Content-Type "
    "Date ETag Expect Host If-None-Match Impersonate-Group Impersonate-Uid Impersonate-User Kubectl-Command Kubectl-Session "
    "Location Origin Retry-After Sec-WebSocket-Protocol Server Traceparent Transfer-Encoding Upgrade User-Agent Vary Warning "
    "X-Content-Type-Options X-Forwarded-For X-Kubernetes-Pf-Flowschema-Uid X-Kubernetes-Pf-Prioritylevel-Uid "
    "X-Remote-Group X-Remote-User"
).split()


def _spellings() -> dict[str | bytes, bytes]:
    found: dict[str | bytes, bytes] = {}
    for name in _KNOWN:
        probe = Headers()
        probe.addRawHeader(name.encode(), b"x")
        canonical = next(iter(probe.getAllRawHeaders()))[0]
        for spelling in {name, name.lower(), name.title(), canonical.decode()}:
            found[spelling] = found[spelling.encode()] = canonical
    return found


_CANONICAL = _spellings()


class FastHeaders(Headers):
    """A drop-in for ``Headers``."""

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        key = _CANONICAL.get(name)
        if key is None:
            return super().getRawHeaders(name, default)
        values = self._rawHeaders.get(key)
        if values is None:
            return default
        return values if isinstance(name, bytes) else [value.decode("utf8") for value in values]

    def hasHeader(self, name: Any) -> bool:
        key = _CANONICAL.get(name)
        return super().hasHeader(name) if key is None else key in self._rawHeaders

    def addRawHeader(self, name: Any, value: Any) -> None:
        key = _CANONICAL.get(name)
        if key is None or not isinstance(value, bytes) or b"\n" in value or b"\r" in value:
            super().addRawHeader(name, value)
            return
        values = self._rawHeaders.get(key)
        if values is None:
            self._rawHeaders[key] = [value]
        else:
            values.append(value)

    def setRawHeaders(self, name: Any, values: Any) -> None:
        key = _CANONICAL.get(name)
        if key is None or len(values) != 1 or not isinstance(values[0], bytes):
            super().setRawHeaders(name, values)
            return
        value = values[0]
        if b"\n" in value or b"\r" in value:
            super().setRawHeaders(name, values)
            return
        self._rawHeaders[key] = [value]
