"""Where a request came from: addresses and user agent (upstream: apimachinery ``util/net`` SourceIPs)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from kapi.request.context import RequestContext

_AGENT_MAX = 1024  # characters
_KEPT_MAX = 1024  # bytes of what is remembered: clients choose it


def origin(ctx: RequestContext) -> tuple[list[str], str]:
    """The addresses and the user agent."""
    values = ctx.http.requestHeaders.getRawHeaders
    forwarded, real, agent = values(b"X-Forwarded-For"), values(b"X-Real-Ip"), values(b"User-Agent")
    source = (
        forwarded[0] if forwarded else b"",
        real[0] if real else b"",
        getattr(ctx.http.getClientAddress(), "host", "") or "",
        agent[0] if agent else b"",
    )
    return _known(*source) if sum(map(len, source)) <= _KEPT_MAX else _read(*source)


def _read(forwarded: bytes, real: bytes, peer: str, agent: bytes) -> tuple[list[str], str]:
    text = agent.decode("utf-8", "replace")
    if len(text) > _AGENT_MAX:
        text = text[:_AGENT_MAX] + "...TRUNCATED"
    return source_ips(forwarded, real, peer), text


_known = lru_cache(1024)(_read)


def source_ips(forwarded: bytes, real: bytes, peer: str) -> list[str]:
    """Every valid address of X-Forwarded-For, then X-Real-Ip, then the peer: the one that cannot be made up."""
    found = [address for part in forwarded.decode("latin-1").split(",") if (address := _address(part.strip()))]
    address = _address(real.decode("latin-1"))
    if address and address not in found:
        found.append(address)
    address = _address(peer)
    if address and (not found or found[-1] != address):
        found.append(address)
    return found


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
