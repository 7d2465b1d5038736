"""Parses what the client of an HTTP/2 connection sends: the header blocks of its requests (RFC 9113).

All other frames are those of ``kapi.wire.http2.receiving``.
"""

from __future__ import annotations

from kapi.serving.http2_heads import Head, Malformed, remember, request_head, trailers
from kapi.serving.http2_stream import Stream
from kapi.wire.http2 import frames as wire
from kapi.wire.http2.fields import Field, Undecodable
from kapi.wire.http2.frames import Code, ConnectionFault, StreamFault
from kapi.wire.http2.receiving import Receiving

MAX_HEADER_LIST_BYTES = (1 << 20) + 320  # SETTINGS_MAX_HEADER_LIST_SIZE: upstream's default


class ReceivingRequests(Receiving[Stream, Head | None]):
    """The receiving side of one connection of a client."""

    def __init__(self, max_streams: int) -> None:
        super().__init__(MAX_HEADER_LIST_BYTES, preface=True)
        self.max_streams = max_streams

    def fields(self, number: int, flags: int, decoded: list[Field]) -> None:
        """A header block that came in several frames."""
        if self._depends_on_itself:
            self.highest = max(self.highest, number)
            raise StreamFault(number, Code.PROTOCOL_ERROR, "a stream depends on itself")
        self._request(number, flags, decoded, None)

    def block(self, number: int, flags: int, block: bytes) -> None:
        """A whole header block."""
        head: Head | None = self._decoder.known.get(block) if number > self.highest else None
        decoded: list[Field] = []
        if head is None:
            try:
                decoded = self._decoder.decode(block)
            except Undecodable as error:
                raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from None
        self._request(number, flags, decoded, head, block)

    def _request(self, number: int, flags: int, decoded: list[Field], head: Head | None, block: bytes = b"") -> None:
        """The fields of a request, or trailers.  ``head`` is known for a ``block`` that came before."""
        ends = bool(flags & wire.END_STREAM)
        if number <= self.highest:
            self._more_fields(number, decoded, ends)
            return
        self.highest = number
        if len(self.streams) >= self.max_streams:
            raise StreamFault(number, Code.REFUSED_STREAM, "too many streams")
        if head is None:
            if self._decoder.oversized:
                self.oversized(number, ends)
                return
            try:
                head = request_head(decoded)
            except Malformed as error:
                raise StreamFault(number, Code.PROTOCOL_ERROR, str(error)) from None
            if block:
                remember(self._decoder, block, head)
            else:
                head.size = self._decoder.total
        if ends and head.length:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "the body that was announced is missing")
        self.begin(number, head, ends)

    def _more_fields(self, number: int, decoded: list[Field], ends: bool) -> None:
        stream = self.streams.get(number)
        if stream is None:
            if number not in self._ended:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a stream's number is lower than the one before")
            self._late(number, "HEADERS")
            return
        if stream.complete:
            raise StreamFault(number, Code.STREAM_CLOSED, "HEADERS after the end")
        if not ends:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "trailers without an end")
        try:
            trailers(decoded)
        except Malformed as error:
            raise StreamFault(number, Code.PROTOCOL_ERROR, str(error)) from None
        if stream.missing:
            raise StreamFault(number, Code.PROTOCOL_ERROR, "the body has another length")
        stream.complete = True
        self.complete(stream)

    # -- for subclasses

    def begin(self, number: int, head: Head, ends: bool) -> None:
        """A request has begun; ``ends`` when it has no body."""
        raise NotImplementedError

    def oversized(self, number: int, ends: bool) -> None:
        """Called when the header list of a request is too large; it was dropped."""
        raise NotImplementedError
