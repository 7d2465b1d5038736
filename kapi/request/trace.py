"""The trace of a request, for code that calls other servers on its behalf (upstream: component-base ``tracing``).

Without ``--tracing-config-file`` no request has one.  The implementation is ``kapi.filters.tracing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self


class Call(Protocol):
    """A call to another server, as a span that ends with the ``with`` block."""

    @property
    def headers(self) -> dict[bytes, list[bytes]]:
        """The headers that carry the trace to another server."""

    def event(self, name: str) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class Trace(Protocol):
    """The spans of one request; each is a child of the one begun before it."""

    @property
    def headers(self) -> dict[bytes, list[bytes]]:
        """The headers that carry the trace to another server."""

    def begin(self, name: str, attributes: Mapping[str, str | int]) -> None: ...

    def call(self, name: str, attributes: Mapping[str, str | int]) -> Call: ...

    def end(self, code: int) -> None:
        """Called when the answer is sent, with its status code."""


def with_trace(trace: Trace | None, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a forwarded request, with the headers of the trace."""
    if trace is None:
        return headers
    own = trace.headers
    kept = [pair for pair in headers if pair[0].lower() not in own]
    return kept + [(name, value) for name, values in own.items() for value in values]
