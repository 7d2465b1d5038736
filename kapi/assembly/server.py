"""Builds a server from flags in stages, each of which returns a dataclass (upstream: cmd/kube-apiserver ``app/server.go``).

A later stage may add to the results of earlier ones (admission to the registry, routes and hooks to the servers), but replaces
nothing.  The only I/O is reading the files of flags; nothing runs yet.
"""

from __future__ import annotations

from kapi.assembly.chain import Outgoing, build_chain
from kapi.assembly.client_certificates import kubelet_settings, proxy_identity
from kapi.assembly.config import Config
from kapi.assembly.controllers import install_controllers, install_peers
from kapi.assembly.extension import Extension
from kapi.assembly.policy import build_policy
from kapi.assembly.prepared import PreparedServer, prepare_run
from kapi.assembly.storage import open_storage


def assemble(given: Config, extension: Extension | None = None) -> PreparedServer:
    """A complete server, which is not started yet; ``extension`` adds to it.  Raises ConfigError."""
    config = given.complete()
    storage = open_storage(config)
    policy = build_policy(config, storage)
    outgoing = Outgoing(kubelet_settings(config), proxy_identity(config))
    chain = build_chain(config, storage, policy, outgoing)
    install_controllers(config, storage, chain)
    peers = install_peers(config, storage, chain, outgoing)
    return prepare_run(config, storage, policy, chain, outgoing, extension, peers)
