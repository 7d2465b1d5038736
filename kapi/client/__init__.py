"""The client library, and outgoing HTTP of the server (upstream: ``k8s.io/client-go``).

Here belong the public library (``config`` and ``clientcmd`` say where a server is, ``rest`` sends requests, everything else
stands on these two; ``docs/client.rst`` is its manual), and for the server kubeconfig files of webhooks and outgoing HTTP:
the dialer, TLS, kept connections, retries.  The library knows none of the server's packages, and the server does not load
it.  Not here: what controllers are made of (``kapi.runtime``), and the protocols over such connections: webhooks, providers
and aggregated servers have packages of their own.
Start reading with ``config.py`` and ``rest.py``.
"""
