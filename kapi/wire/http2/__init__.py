"""HTTP/2 without sockets: frames, and header fields in their compression (RFC 9113, RFC 7541)."""
