"""Clients of our own: in-process ones, and the HTTP client for configured servers (upstream: ``k8s.io/client-go``).

Here belong the in-process client's interface, the work queue of controllers, kubeconfig files, and outgoing HTTP: the
dialer, TLS, kept connections, retries.  Not here: what is said over a connection - webhooks, providers and aggregated
servers have rooms of their own.
Start reading with ``interface.py`` and ``https.py``.
"""
