"""Errors of connections as text, in the words of Go's net, http and crypto/tls packages, which API messages quote."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from twisted.internet import defer, error
from twisted.python.failure import Failure

from kapi.wire.answer import BrokenBody


class LookupTimedOut(error.DNSLookupError):
    """No name server has answered in time."""


_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?")


def is_domain_name(name: str) -> bool:
    """Whether Go asks a name server for the name: it is the root, or has labels, which are not all numbers."""
    if name == "." or not name.isascii():
        return True  # punycode is made of the latter
    labels = name.removesuffix(".").split(".")
    known = all(len(label) < 64 and _LABEL.fullmatch(label) for label in labels)
    return known and len(name.removesuffix(".")) <= 253 and not all(label.isdigit() for label in labels)


@functools.cache
def _name_server() -> str:
    """The first server of ``/etc/resolv.conf``, as Go reads it, with its port."""
    with contextlib.suppress(OSError), open("/etc/resolv.conf") as file:
        for line in file:
            match line.split():
                case ["nameserver", address, *_]:
                    return f"[{address}]:53" if ":" in address else f"{address}:53"
    return "127.0.0.1:53"


def describe(problem: BaseException, host: str, port: int) -> str:
    """The text for an error; ``host`` and ``port`` are what was dialled."""
    reasons: Sequence[Failure] = getattr(problem, "reasons", ())  # of an Agent's request
    if reasons and reasons[0].value is not None:
        problem = reasons[0].value
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match problem:
        case error.ConnectionRefusedError():
            return f"dial tcp {address}: connect: connection refused"
        case error.NoRouteError():
            return f"dial tcp {address}: connect: no route to host"
        case error.TimeoutError() | defer.TimeoutError():
            return f"dial tcp {address}: i/o timeout"
        case LookupTimedOut():
            return f"dial tcp: lookup {host}: i/o timeout"
        case error.DNSLookupError():
            server = f" on {_name_server()}" if is_domain_name(host) else ""
            return f"dial tcp: lookup {host}{server}: no such host"
        case error.ConnectionDone() | error.ConnectionLost():
            return "EOF"
    text = str(problem) or type(problem).__name__
    if "certificate verify failed" in text:
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if type(problem).__name__ == "VerificationError" or "Mismatch" in text:
        wanted = getattr(next(iter(getattr(problem, "errors", ())), None), "mismatched_id", None)
        name = getattr(wanted, "hostname", b"").decode() or host  # which may be another than was dialled
        return f"tls: failed to verify certificate: x509: certificate is not valid for {name}"
    return text


def describe_request(problem: BaseException, method: str, url: str) -> str:
    """The text for the error of a whole request, with its URL without credentials."""
    if isinstance(problem, BrokenBody):
        return str(problem)
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else 80 if parts.scheme == "http" else 443
    except ValueError as error:
        return f'parse "{url}": {error}'
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return f'{method.capitalize()} "{shown}": {describe(problem, parts.hostname or "", port)}'
