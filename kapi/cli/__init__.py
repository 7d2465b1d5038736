"""``kapi get`` and its neighbours (upstream: ``k8s.io/kubectl``, ``k8s.io/cli-runtime``).

Here belong the commands of the client side and the parts they share, under upstream's names: a Builder turns arguments into
a Visitor of Infos, a Result hands these to a printer.  They use the client library and nothing of the server; what is not
needed for a command is not imported, since a command lives for a third of a second.  Not here: requests, discovery and
configuration (``kapi.client``).
Start reading with ``main.py`` and ``get.py``.
"""
