"""The client commands, such as ``kapi get`` (upstream: ``k8s.io/kubectl``, ``k8s.io/cli-runtime``).

Here belong the commands and the parts they share, under upstream's names: a Builder turns arguments into a Visitor of Infos, a
Result gives these to a printer.  They use the client library and nothing of the server.  A command imports only what it needs,
since it runs for a third of a second.  Not here: requests, discovery and configuration (``kapi.client``).
Start reading with ``main.py`` and ``get.py``.
"""
