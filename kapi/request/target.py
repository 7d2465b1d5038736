"""The target of a request, from the request line or from ``:path`` (upstream: Go's ``url.ParseRequestURI``).

It is normalized when the request comes in, so that routing, the audit log and proxies interpret it in the same way.
"""

from __future__ import annotations

import re

_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)\Z", re.IGNORECASE | re.DOTALL).match
_NOT_PRINTABLE = re.compile(rb"[\x00-\x20\x7f]").search
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
#: whether all bytes can be in a host, an address or a port (``httpguts.ValidHostHeader``)
is_host = re.compile(rb"[0-9A-Za-z!$%&'()*+,.:;=\[\]_~-]*\Z").match


def origin_form(method: bytes, target: bytes) -> tuple[bytes, bytes] | None:
    """(path and query, the host or b""); None for an invalid target.

    Bytes that are not ASCII are percent-encoded, as Go does before it writes them anywhere.
    """
    if _NOT_PRINTABLE(target):
        return None
    host = b""
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE(target)
        if absolute is None:
            return (target, b"") if target == b"*" and method == b"OPTIONS" else None
        host, target = absolute.groups()
        host = host.rpartition(b"@")[2]
        if not host or not is_host(host):
            return None
        if not target.startswith(b"/"):
            target = b"/" + target
    if not target.isascii():
        target = _NOT_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), target)
    return target, host
