"""Bytes on sockets, and connections to other machines (upstream: ``net/http``, ``crypto/tls``, ``golang.org/x/net/http2``).

Here belong TLS in both directions, the frames of HTTP/2, outgoing connections with their pool and agent, the dialer with its
proxies, WebSockets, and gRPC calls of plugins.  Not here: what is sent, namely the client library (``kapi.client``), webhooks and
proxied requests; and the server's side of a request (``kapi.serving``).  Start reading with ``dial.py`` and ``connection.py``.
"""
