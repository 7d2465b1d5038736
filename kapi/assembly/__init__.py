"""Builds a server from the options (upstream: ``pkg/controlplane`` and ``cmd/kube-apiserver/app/server.go``).

Here belongs construction only: the choice and order of authenticators, authorizers, admission plugins, filters, servers and
controllers.  Not here: code that answers requests, and starting and stopping (``kapi.service``).
Start reading with ``server.py`` (the stages in their order) and ``filters.py`` (DefaultBuildHandlerChain).
"""
