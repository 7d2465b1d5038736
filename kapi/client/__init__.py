"""The client half (upstream: ``k8s.io/client-go``), and below it what the server's own outgoing requests use.

The library is public: ``config`` and ``clientcmd`` say where a server is, ``rest`` sends requests, everything else stands on
these two; ``docs/client.rst`` is its manual.  None of it knows the server's packages, and the server does not load it.

For the server there are the in-process client's ``interface``, the work queue of controllers, kubeconfig files of webhooks,
and outgoing HTTP: the dialer, TLS, kept connections, retries.  Not here: what is said over a connection - webhooks, providers
and aggregated servers have rooms of their own.
Start reading with ``rest.py`` for the library, with ``interface.py`` and ``https.py`` for the server.
"""
