"""HTTP/2 (RFC 9113, RFC 7541): frames, header fields and the receiving side of both ends; the client's connections."""
