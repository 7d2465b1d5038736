"""The source of a request: addresses and user agent (upstream: apimachinery ``util/net`` SourceIPs)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from kapi.request.context import RequestContext

_MAX_ADDRESS_LENGTH = 256  # characters, with the name of a zone
_MAX_AGENT_LENGTH = 1024  # characters


def origin(ctx: RequestContext) -> tuple[list[str], str]:
    """(source addresses, user agent) of a request."""
    values = ctx.http.requestHeaders.getRawHeaders
    forwarded, real, agents = values(b"X-Forwarded-For"), values(b"X-Real-Ip"), values(b"User-Agent")
    agent = agents[0] if agents else b""
    peer = getattr(ctx.http.getClientAddress(), "host", "") or ""
    if not forwarded and not real and len(agent) <= _MAX_AGENT_LENGTH:
        return _direct(peer, agent)
    return source_ips(forwarded[0] if forwarded else b"", real[0] if real else b"", peer), _text(agent)


@lru_cache(1024)
def _direct(peer: str, agent: bytes) -> tuple[list[str], str]:
    """``origin`` of a client that does not come through a proxy."""
    return source_ips(b"", b"", peer), _text(agent)


def _text(agent: bytes) -> str:
    text = agent.decode("utf-8", "replace")
    return text if len(text) <= _MAX_AGENT_LENGTH else text[:_MAX_AGENT_LENGTH] + "...TRUNCATED"


def source_ips(forwarded: bytes, real: bytes, peer: str) -> list[str]:
    """Every valid address of X-Forwarded-For, then X-Real-Ip, then the peer's, the only one that a client cannot forge."""
    found = [address for part in forwarded.decode("latin-1").split(",") if (address := _address(part.strip()))]
    address = _address(real.decode("latin-1"))
    if address and address not in found:
        found.append(address)
    address = _address(peer)
    if address and (not found or found[-1] != address):
        found.append(address)
    return found


def _address(text: str) -> str:
    """The address in its canonical form, or "" when ``text`` is not one."""
    return _canonical(text) if 0 < len(text) <= _MAX_ADDRESS_LENGTH else ""


@lru_cache(4096)
def _canonical(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
