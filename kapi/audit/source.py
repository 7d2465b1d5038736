"""Where a request came from: addresses and user agent (upstream: apimachinery ``util/net`` SourceIPs)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from kapi.request.context import RequestContext

_AGENT_MAX = 1024


def source_ips(ctx: RequestContext) -> list[str]:
    """Every valid address of X-Forwarded-For, then X-Real-Ip, then the peer: the one that cannot be made up."""
    headers = ctx.http.requestHeaders
    found: list[str] = []
    forwarded = headers.getRawHeaders(b"x-forwarded-for")
    if forwarded:
        for part in forwarded[0].decode("latin-1").split(","):
            address = _address(part.strip())
            if address:
                found.append(address)
    real = headers.getRawHeaders(b"x-real-ip")
    if real:
        address = _address(real[0].decode("latin-1"))
        if address and address not in found:
            found.append(address)
    peer = ctx.http.getClientAddress()
    address = _address(getattr(peer, "host", "") or "")
    if address and (not found or found[-1] != address):
        found.append(address)
    return found


def user_agent(ctx: RequestContext) -> str:
    values = ctx.http.requestHeaders.getRawHeaders(b"user-agent")
    text: str = values[0].decode("utf-8", "replace") if values else ""
    return text if len(text) <= _AGENT_MAX else text[:_AGENT_MAX] + "...TRUNCATED"


@lru_cache(4096)
def _address(text: str) -> str:
    """The address in its canonical form, "" when it is none."""
    if not text:
        return ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
